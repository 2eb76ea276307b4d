from .sac_lagrangian import SACLagrangian

__all__ = ["SACLagrangian"]
