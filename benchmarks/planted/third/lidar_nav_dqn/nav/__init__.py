from .env import LidarNavEnv
from .callbacks import EpisodeStats, PreemptionGuard

__all__ = ["LidarNavEnv", "EpisodeStats", "PreemptionGuard"]
