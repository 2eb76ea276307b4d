from .callbacks import SwarmStats
from .world import SwarmVecEnv

__all__ = ["SwarmStats", "SwarmVecEnv"]
