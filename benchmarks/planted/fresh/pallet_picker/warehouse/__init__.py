from .env import PickingEnv

__all__ = ["PickingEnv"]
