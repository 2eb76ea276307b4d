"""Petri nets, by default the cluster tool that moves wafers: schedules by PPO with a masked policy."""

from dataclasses import dataclass, replace

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem


@dataclass(frozen=True)
class Config(PPOConfig):
    wafers: int | None = None
    """Wafers of the cluster tool; 12 if not given."""
    pnml: str | None = None
    """A PNML file with another net."""
    features: str = "tokens"
    """What is observed: tokens (each wafer) or places (each place)."""
    stop_when_dead: bool = False
    """End an episode in a deadlock; else it lasts until the time is up."""


# As the original report had it: one environment in Python, 640 frames per batch.
SEED = Config(
    num_envs=1,
    turbo=False,
    workers=0,
    total_steps=640 * 300,
    horizon=640,
    epochs=10,
    batch_size=64,
    hidden=(128,) * 4,
    critic_hidden=(128,) * 3,
    activation="relu",
    learning_rate=1e-4,
    anneal=False,
    gamma=0.99,
    gae_lambda=0.95,
    clip=0.2,
    entropy=0.02,
    entropy_end=0.01,
    grad_clip=1.0,
)

FAST = Config(
    num_envs=64,
    turbo=True,
    total_steps=1_000_000,
    horizon=128,
    epochs=4,
    batch_size=1024,
    hidden=(128,) * 4,
    critic_hidden=(128,) * 3,
    activation="relu",
    features="places",
    stop_when_dead=True,
    learning_rate=1e-3,
    gamma=0.99,
    gae_lambda=0.95,
    entropy=0.02,
    entropy_end=0.001,
    normalize_reward=True,
    grad_clip=1.0,
)

GPU = replace(
    FAST,
    device="cuda",
    precision="tf32",
    num_envs=8_192,
    total_steps=200_000_000,
    horizon=32,
    batch_size=32_768,
)

SYSTEM = RLSystem(
    name="petri",
    summary="a timed Petri net: wafers through a cluster tool",
    recipes={
        "ppo": {
            "fast": Recipe(FAST, "C kernel, 64 tools, rewards scaled"),
            "gpu": Recipe(GPU, "the same with 8,192 tools on a CUDA GPU"),
            "seed": Recipe(
                SEED,
                "one Python environment, 640 frames per batch, 10 epochs of 64",
                claims=("turbo=on", "batch_size=256", "num_envs=8,64"),
            ),
        }
    },
    game="petri",
    options=("wafers", "pnml", "features", "stop_when_dead"),
    score="finished",
)
