"""Snake with DQN on hundreds of environments and flood-fill features."""

from dataclasses import dataclass
from typing import Any

from hotlap.train.configs import DQNConfig
from hotlap.train.system import RLSystem


@dataclass(frozen=True)
class Config(DQNConfig):
    features: str = "flood"
    """What the snake sees: basic (11 values), flood (14) or grid (the board)."""
    size: int = 10
    """Rows and columns of the board."""


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


def make_env(config: Config, num_envs: int | None = None) -> Any:
    from hotlap.envs.vector import make_vec

    number = config.num_envs if num_envs is None else num_envs
    return make_vec(
        "snake",
        number,
        turbo=config.turbo,
        seed=config.seed,
        threads=config.env_threads,
        workers=0 if config.turbo else min(config.workers, number),
        patience=config.env_timeout,
        features=config.features,
        size=config.size,
    )


SYSTEM = RLSystem(
    name="snake",
    summary="Snake on a 10x10 board, 256 environments",
    algorithm="DQN",
    trainer_module="hotlap.train.dqn",
    presets={"fast": FAST, "seed": SEED},
    preset_notes={
        "fast": "C kernel, double 3-step DQN, 2 updates of 256 per vector step",
        "seed": "Python environments, 64 updates of 64 per vector step",
    },
    make_env=make_env,
    score="score",
    kernel=True,
)
