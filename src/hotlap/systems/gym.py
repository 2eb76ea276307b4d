"""Any registered Gymnasium environment as a system: its environment, and PPO or DQN with defaults that suit small tasks."""

from hotlap.train.configs import DQNConfig, PPOConfig
from hotlap.train.system import Recipe, RLSystem

KERNELS = {"CartPole-v1": "cartpole"}  # environments of which hotlap has a kernel

PPO = PPOConfig(entropy=0.01, target_kl=0.02)
DQN = DQNConfig(
    num_envs=8,
    turbo=False,
    total_steps=100_000,
    iteration_steps=128,
    updates_per_step=4,
    batch_size=128,
    buffer_size=50_000,
    learning_starts=2_000,
    learning_rate=3e-4,
    n_step=3,
    double=True,
    target_sync=500,
    grad_clip=10.0,
    epsilon_end=0.02,
    epsilon_steps=20_000,
)
NOTE = "defaults for small tasks"


def gym_system(name: str) -> RLSystem:
    return RLSystem(
        name=name,
        summary=f"{name} of Gymnasium",
        recipes={"ppo": {"fast": Recipe(PPO, NOTE)}, "dqn": {"fast": Recipe(DQN, NOTE)}},
        game=KERNELS.get(name, ""),
        gym=name,
    )
