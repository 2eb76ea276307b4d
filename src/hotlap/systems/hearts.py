"""Hearts by self-play with PPO: attention over past observations, as in the original report, or fast dense layers."""

from dataclasses import dataclass, replace

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem

ATTENTION = ("attn-128x2", "attn-64x1", "attn-32x1")


@dataclass(frozen=True)
class Config(PPOConfig):
    """What an environment shows follows from the network: its last observations, the present one, or the relative view."""

    @property
    def observation(self) -> str:
        return "sparse" if self.net in (*ATTENTION, "mlp") else "relative"

    @property
    def history(self) -> int:
        return 5 if self.net in ATTENTION else int(self.net == "mlp")


# As the original report had it: two Python environments in processes of their own, 1,250 updates of 32 decisions per iteration.
SEED = Config(
    num_envs=2,
    turbo=False,
    workers=2,
    total_steps=400_000,
    horizon=2_000,
    epochs=10,
    batch_size=32,
    net="attn-128x2",
    hidden=(512, 512, 256),  # of --net mlp, its second option
    activation="relu",
    shared=True,
    learning_rate=2e-4,
    anneal=False,
    gamma=0.99,
    gae_lambda=0.95,
    clip=0.2,
    value_weight=2.0,
    entropy=0.05,
    grad_clip=0.5,
    opponents=0,
)

# The report's first option: a smaller network, fewer epochs of larger minibatches, more environments.
SEED_OPTIMIZED = replace(SEED, num_envs=8, workers=4, horizon=750, epochs=6, batch_size=64, net="attn-64x1")

FAST = Config(
    num_envs=512,
    turbo=True,
    total_steps=36_000_000,
    horizon=64,
    epochs=2,
    batch_size=2048,
    net="cards",
    hidden=(256, 128),
    activation="relu",
    shared=True,
    learning_rate=2e-3,
    gamma=1.0,
    gae_lambda=0.9,
    value_weight=0.02,  # returns are from 0 to 26
    entropy=0.02,
    entropy_end=0.001,
    opponents=8,
    opponent_share=0.125,
    opponent_every=20,
)

GPU = replace(
    FAST,
    device="cuda",
    precision="tf32",
    num_envs=4_096,
    total_steps=400_000_000,
    batch_size=16_384,
)

SYSTEM = RLSystem(
    name="hearts",
    summary="Hearts, four seats, against itself and past selves",
    recipes={
        "ppo": {
            "fast": Recipe(FAST, "C kernel, 512 tables, dense network of the table as the seat to move sees it"),
            "gpu": Recipe(GPU, "the same with 4,096 tables on a CUDA GPU"),
            "seed": Recipe(
                SEED,
                "two Python environments, attention over five observations, 1,250 updates of 32",
                claims=("batch_size=128", "net=attn-32x1", "preset=seed-optimized", "num_envs=8"),
            ),
            "seed-optimized": Recipe(SEED_OPTIMIZED, "the report's own first option: smaller network, updates of 64"),
        }
    },
    game="hearts",
    options=("observation", "history"),
    score="score",
    nets={
        "ppo": {
            "cards": "hotlap.train.nets:mlp_policy",
            **{name: f"hotlap.systems.hearts_net:{name.replace('-', '_')}" for name in ATTENTION},
        }
    },
)
