"""Snake on hundreds of environments with flood-fill features: DQN as in the original report, or PPO."""

from dataclasses import dataclass

from hotlap.train.configs import DQNConfig, PPOConfig
from hotlap.train.system import Recipe, RLSystem


@dataclass(frozen=True)
class Board:
    """Options of the game."""

    features: str = "flood"
    """What the snake sees: basic (11 values), flood (14) or grid (the board)."""
    size: int = 10
    """Rows and columns of the board."""


@dataclass(frozen=True)
class Config(Board, DQNConfig):
    """DQN."""


@dataclass(frozen=True)
class PPOSnake(Board, PPOConfig):
    """PPO."""


# As the original report had it: Python environments in one process, 64 updates of 64 per vector step.
SEED = Config(turbo=False, workers=0, features="basic")

FAST = Config(
    total_steps=2_000_000,
    updates_per_step=2,
    batch_size=256,
    buffer_size=500_000,
    learning_starts=20_000,
    learning_rate=5e-4,
    gamma=0.98,
    n_step=3,
    double=True,
    epsilon_steps=1_500_000,
    target_sync=500,
    grad_clip=10.0,
)


PPO = PPOSnake(
    num_envs=256,
    turbo=True,
    total_steps=3_000_000,
    horizon=32,
    epochs=3,
    batch_size=1024,
    hidden=(128, 128),
    shared=True,
    learning_rate=1e-3,
    gamma=0.98,
    entropy=0.01,
)

SYSTEM = RLSystem(
    name="snake",
    summary="Snake on a 10x10 board",
    recipes={
        "dqn": {
            "fast": Recipe(FAST, "C kernel, double 3-step DQN, 2 updates of 256 per vector step"),
            "seed": Recipe(
                SEED,
                "Python environments, 64 updates of 64 per vector step",
                claims=("turbo=on", "updates_per_step=16,1"),
            ),
        },
        "ppo": {"fast": Recipe(PPO, "C kernel, 256 environments, 3 epochs over 32 steps of each")},
    },
    game="snake",
    options=("features", "size"),
    score="score",
)
