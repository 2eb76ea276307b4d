"""Connect Four, by self-play with PPO."""

from hotlap.train.configs import PPOConfig
from hotlap.train.system import Recipe, RLSystem

FAST = PPOConfig(
    num_envs=512,
    turbo=True,
    total_steps=6_000_000,
    horizon=32,
    epochs=2,
    batch_size=2048,
    hidden=(256, 256),
    activation="relu",
    net="mlp",
    learning_rate=1e-3,
    gamma=0.99,
    gae_lambda=0.9,
    entropy=0.02,
    entropy_end=0.005,
    opponents=8,
    opponent_share=0.25,
    opponent_every=20,
)

SYSTEM = RLSystem(
    name="connect4",
    summary="Connect Four on 6 x 7, against itself and past selves",
    recipes={"ppo": {"fast": Recipe(FAST, "C kernel, 512 games, dense network of 256-256 units")}},
    game="connect4",
    score="score",
    nets={"ppo": {"lines": "hotlap.systems.connect4_net:lines_policy"}},
)
