"""Connect Four, by self-play with PPO."""

from dataclasses import replace

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem

# Entropy is kept high for long: a policy that always plays the same game against itself knows no other.
FAST = PPOConfig(
    num_envs=512,
    turbo=True,
    total_steps=2_000_000,
    horizon=32,
    epochs=3,
    batch_size=1024,
    net="lines",
    hidden=(128, 128),
    activation="relu",
    shared=True,
    learning_rate=7e-4,
    gae_lambda=0.95,
    entropy=0.15,
    entropy_end=0.05,
    opponent_every=20,
)

STONES = replace(
    FAST,
    net="mlp",
    hidden=(256, 128),
    total_steps=12_000_000,
    learning_rate=1e-3,
    entropy=0.1,
    entropy_end=0.02,
)

SYSTEM = RLSystem(
    name="connect4",
    summary="Connect Four, against itself and past selves",
    recipes={
        "ppo": {
            "fast": Recipe(FAST, "C kernel, 512 games, a dense network that is shown where a fourth stone wins"),
            "stones": Recipe(STONES, "the network sees the stones alone, and needs 12M steps"),
        }
    },
    game="connect4",
    score="score",
    nets={"ppo": {"lines": "hotlap.systems.connect4_net:lines_policy"}},
)
