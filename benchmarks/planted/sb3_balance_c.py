"""PPO on a short-horizon CartPole, keeping the best policy."""

import tempfile

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

NUM_ENVS = 16
N_STEPS = 32
SEED = 11


def make_env(seed: int):
    def thunk():
        env = Monitor(gym.make("CartPole-v1", max_episode_steps=100))
        env.reset(seed=seed)
        env.action_space.seed(seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    env = DummyVecEnv([make_env(SEED + i) for i in range(NUM_ENVS)])
    eval_env = DummyVecEnv([make_env(SEED + 1000)])
    folder = tempfile.mkdtemp(prefix="balance_")
    evaluation = EvalCallback(
        eval_env,
        best_model_save_path=folder,
        n_eval_episodes=5,
        eval_freq=N_STEPS,
        deterministic=True,
        verbose=0,
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=N_STEPS,
        batch_size=256,
        n_epochs=4,
        learning_rate=5e-4,
        gamma=0.98,
        gae_lambda=0.9,
        seed=SEED,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000, callback=evaluation)
    env.close()
    eval_env.close()


if __name__ == "__main__":
    main()
