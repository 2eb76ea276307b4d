import torch
from stable_baselines3.common.env_util import make_vec_env

from agent import PERDoubleDQN
from dungeon.compat import GymShim

torch.set_num_threads(1)

CONFIG = dict(
    learning_rate=5e-4,
    buffer_size=100_000,
    learning_starts=1_000,
    batch_size=256,
    tau=1.0,
    gamma=0.98,
    train_freq=2,
    gradient_steps=1,
    target_update_interval=1_000,
    exploration_fraction=0.1,
    exploration_final_eps=0.05,
    policy_kwargs=dict(net_arch=[64, 64]),
)


def main():
    env = make_vec_env(GymShim, n_envs=1, seed=5)
    agent = PERDoubleDQN("MlpPolicy", env, seed=5, device="cpu", verbose=1, **CONFIG)
    agent.learn(total_timesteps=2_000_000, log_interval=50)
    agent.save("dungeon_per_dqn")


if __name__ == "__main__":
    main()
