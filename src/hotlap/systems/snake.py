"""Snake on hundreds of environments with flood-fill features: DQN as in the original report, or PPO."""

from dataclasses import dataclass, replace

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

GPU = replace(
    FAST,
    device="cuda",
    num_envs=4_096,
    iteration_steps=32,
    total_steps=20_000_000,
    batch_size=4_096,
    buffer_size=1_000_000,
    learning_starts=100_000,
    learning_rate=1e-3,
    epsilon_steps=10_000_000,
    target_sync=250,
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

PPO_GPU = replace(
    PPO,
    device="cuda",
    precision="tf32",
    num_envs=16_384,
    total_steps=400_000_000,
    epochs=2,
    batch_size=65_536,
    learning_rate=2e-3,
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
            "gpu": Recipe(GPU, "4,096 environments on the GPU, 2 updates of 4,096 per vector step"),
        },
        "ppo": {
            "fast": Recipe(PPO, "C kernel, 256 environments, 3 epochs over 32 steps of each"),
            "gpu": Recipe(PPO_GPU, "16,384 environments on a CUDA GPU, 2 epochs over 32 steps of each"),
        },
    },
    game="snake",
    options=("features", "size"),
    score="score",
)
