"""MettaGrid: agents on a grid with walls gather, convert and fight over resources; one recurrent policy, by PPO, for all.

`--engine metta` trains on the `mettagrid` package instead (`pip install hotlap[mettagrid]`).
"""

from dataclasses import dataclass, replace

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem


@dataclass(frozen=True)
class Config(PPOConfig):
    engine: str = "own"
    """own: hotlap's environments; metta: those of the mettagrid package."""
    task: str = "navigation"
    """navigation (find the hearts of all altars), or arena (gather, convert, fight)."""
    agents: int | None = None
    """Agents in each environment; if not given 4, or those of the map."""
    map: str | None = None
    """A map in a text file; else each episode has a new one."""
    generator: str = "open"
    """How those are made: open, rooms or maze."""
    rows: int = 32
    """Their height."""
    columns: int = 32
    """Their width."""
    max_steps: int = 1_000
    """Steps after which an episode is cut off."""
    tokens: int = 200
    """Tokens of an observation."""


# As the original guide had it before it was optimized: batches of 16,384 agent-steps in minibatches of 512, and the features
# that it calls expensive.
SEED = Config(
    num_envs=64,
    turbo=False,
    workers=4,
    async_factor=2,
    total_steps=4_000_000,
    horizon=64,
    epochs=1,
    batch_size=512,
    net="box",
    hidden=(128, 128),
    activation="relu",
    shared=True,
    memory="lstm",
    memory_layers=2,
    learning_rate=3e-4,
    anneal=False,
    gamma=0.99,
    gae_lambda=0.95,
    clip=0.1,
    entropy=0.01,
    grad_clip=0.5,
    priority_alpha=0.8,
    contrastive=0.1,
    weight_analysis=150,
    zero_copy=False,
    cpu_offload=True,
)

# The guide's own optimized one: batches of 262,144, so 128 steps of 512 environments, in sequences of 32.
SEED_OPTIMIZED = replace(
    SEED,
    num_envs=512,
    workers=16,
    async_factor=8,
    total_steps=40_000_000,
    horizon=128,
    bptt=32,
    batch_size=32_768,
    priority_alpha=0.0,
    contrastive=0.0,
    weight_analysis=0,
    zero_copy=True,
    cpu_offload=False,
)

FAST = Config(
    num_envs=64,
    turbo=True,
    torch_threads=2,
    total_steps=6_000_000,
    horizon=64,
    bptt=32,
    epochs=2,
    batch_size=2_048,
    net="tokens",
    hidden=(128,),
    activation="relu",
    shared=True,
    memory="lstm",
    learning_rate=1e-3,
    gamma=0.99,
    gae_lambda=0.95,
    entropy=0.01,
    entropy_end=0.0,
)

GPU = replace(
    FAST,
    device="cuda",
    precision="bfloat16",
    net="box",
    num_envs=2_048,
    total_steps=200_000_000,
    batch_size=32_768,
)

SYSTEM = RLSystem(
    name="mettagrid",
    summary="agents on a grid gather, convert and fight over resources",
    recipes={
        "ppo": {
            "fast": Recipe(FAST, "C kernel, 64 grids of 4 agents, convolution of tokens, one layer of LSTM"),
            "gpu": Recipe(GPU, "2,048 grids of 4 agents on a CUDA GPU, in bfloat16"),
            "seed": Recipe(
                SEED,
                "64 Python environments in 4 workers, two layers of LSTM, 32 updates of 512",
                claims=(
                    "batch_size=4096",
                    "num_envs=128",
                    "workers=16",
                    "async_factor=4",  # 8 would need more workers
                    "bptt=32",
                    "priority_alpha=0",
                    "contrastive=0",
                    "weight_analysis=0",
                    "cpu_offload=off",
                    "zero_copy=on",
                    "turbo=on",
                ),
            ),
            "seed-optimized": Recipe(SEED_OPTIMIZED, "the guide's own: 512 environments in 16 workers, 8 updates of 32,768"),
        }
    },
    game="mettagrid",
    guests={"metta": "mettagrid/"},
    options=("task", "agents", "map", "generator", "rows", "columns", "max_steps", "tokens"),
    score="found",
    nets={
        "ppo": {
            "tokens": "hotlap.systems.mettagrid_net:tokens_policy",
            "box": "hotlap.systems.mettagrid_net:box_policy",
        }
    },
)
