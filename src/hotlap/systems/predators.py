"""Predators that hunt prey on a grid: one policy, by PPO, for all agents."""

from dataclasses import dataclass

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem


@dataclass(frozen=True)
class Config(PPOConfig):
    agents: int = 4
    """Predators in each environment."""
    prey: int = 6
    """Prey in each environment."""


FAST = Config(
    num_envs=128,
    turbo=True,
    total_steps=2_000_000,
    horizon=32,
    epochs=3,
    batch_size=1024,
    hidden=(128, 128),
    activation="relu",
    shared=True,
    net="mlp",
    learning_rate=1e-3,
    gamma=0.98,
    gae_lambda=0.9,
    entropy=0.01,
)

SYSTEM = RLSystem(
    name="predators",
    summary="four predators hunt prey on a grid with walls",
    recipes={"ppo": {"fast": Recipe(FAST, "C kernel, 128 grids of 4 agents, one dense network for all")}},
    game="predators",
    options=("agents", "prey"),
    score="caught",
)
