"""Stable-Baselines3 PPO on a crowd of cart-poles, with a small progress callback."""
import random
import time

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor

SEED = 17
CARTS = 8
BUDGET = 3_000_000


class ShapedPole(gym.Wrapper):
    """CartPole with a small penalty for drifting away from the middle of the track."""

    def __init__(self, env, weight):
        super().__init__(env)
        self.weight = weight

    def step(self, action):
        obs, reward, term, trunc, info = self.env.step(action)
        return obs, reward - self.weight * abs(float(obs[0])), term, trunc, info


def build(rank):
    def thunk():
        env = ShapedPole(gym.make("CartPole-v1"), 0.05)
        env.action_space.seed(SEED + rank)
        return env

    return thunk


class Progress(BaseCallback):
    def __init__(self, every):
        super().__init__()
        self.every = every
        self.n = 0
        self.t0 = time.time()

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.n += 1
        if self.n % self.every == 0:
            lengths = [e["l"] for e in self.model.ep_info_buffer]
            mean = np.mean(lengths) if lengths else float("nan")
            print(f"{self.num_timesteps:>9d} len {mean:6.1f} t {time.time() - self.t0:.0f}s", flush=True)


def learning_rate(remaining):
    return 3e-4 * (0.3 + 0.7 * remaining)


def make_vec():
    fns = [build(i) for i in range(CARTS)]
    return VecMonitor(SubprocVecEnv(fns, start_method="fork"))


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    venv = make_vec()
    venv.seed(SEED)
    learner = PPO(
        "MlpPolicy",
        venv,
        n_steps=128,
        batch_size=512,
        n_epochs=4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.003,
        learning_rate=learning_rate,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=SEED,
        device="cpu",
        verbose=0,
    )
    try:
        learner.learn(BUDGET, callback=Progress(every=20))
    finally:
        venv.close()


if __name__ == "__main__":
    main()
