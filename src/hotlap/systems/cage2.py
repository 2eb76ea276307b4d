"""CAGE Challenge 2: PPO defends a network against the challenge's red agents, evaluated by the challenge's protocol."""

from dataclasses import dataclass, replace

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem

REDS = ("b_line", "meander", "sleep")
LENGTHS = (30, 50, 100)


@dataclass(frozen=True)
class Config(PPOConfig):
    red: str = "mixed"
    """Whom it defends against in training: b_line, meander, sleep; several joined by +; mixed: all three."""
    episode_length: int = 100
    """Steps of an episode in training."""
    observation: str = "history"
    """What is observed: table (52 bits), scans (62 numbers), history (what can be remembered of the episode too)."""
    actions: str = "merged"
    """What can be done: all (145), distinct (81) or merged (52: one decoy action for each host)."""


# As the original report had it: one environment in Python, 200 episodes of 100 steps per update, 6 epochs of the whole batch.
SEED = Config(
    num_envs=1,
    turbo=False,
    workers=0,
    total_steps=20_000 * 50,
    horizon=20_000,
    epochs=6,
    batch_size=20_000,
    red="b_line",
    observation="scans",
    actions="all",
    hidden=(64, 64),
    activation="tanh",
    learning_rate=0.002,
    beta2=0.99,
    anneal=False,
    gamma=0.99,
    gae_lambda=1.0,
    bootstrap=False,
    normalize_return=True,
    normalize_advantage=False,
    clip=0.2,
    value_weight=1.0,  # of half the squared error: as 0.5 of the squared one
    entropy=0.01,
    grad_clip=1e6,  # none
)

# The report's other form: each of 200 environments in a process of its own, asked through a pipe.
SEED_200 = replace(SEED, num_envs=200, workers=200, transport="pipe", horizon=100)

FAST = Config(
    num_envs=1_024,
    turbo=True,
    total_steps=40_000_000,
    horizon=25,
    epochs=3,
    batch_size=3_200,
    red="b_line+meander+meander+meander+sleep",  # Meander, which does not go straight for its goal, takes longest to learn
    hidden=(64, 64),
    activation="relu",
    learning_rate=2e-3,
    gamma=0.99,
    gae_lambda=0.95,
    bootstrap=False,
    normalize_reward=True,
    entropy=0.01,
    entropy_end=0.0005,
    grad_clip=0.5,
)

GPU = replace(
    FAST,
    device="cuda",
    precision="tf32",
    num_envs=8_192,
    total_steps=400_000_000,
    batch_size=25_600,
)

SYSTEM = RLSystem(
    name="cage2",
    summary="CAGE Challenge 2: 13 hosts against a red agent",
    recipes={
        "ppo": {
            "fast": Recipe(FAST, "C kernel, 1,024 networks, what Blue can remember as bits, merged decoys"),
            "gpu": Recipe(GPU, "the same with 8,192 networks on a CUDA GPU"),
            "seed": Recipe(
                SEED,
                "one Python environment, 20,000 steps per update, whole returns, 6 epochs of one batch",
                claims=("preset=seed-200", "turbo=on"),
            ),
            "seed-200": Recipe(
                SEED_200,
                "the same with 200 processes and pickles through pipes",
                claims=("transport=shared", "workers=2", "async_factor=2", "num_envs=500", "turbo=on"),
            ),
        }
    },
    game="cage2",
    options=("red", "episode_length", "observation", "actions"),
    cases={f"{red}, {length} steps": {"red": red, "episode_length": length} for red in REDS for length in LENGTHS},
    evaluation_episodes=1_000,
    outside="hotlap.systems.cage2_policy:Defender",
)
