"""Stable-Baselines3 PPO on a small irrigation task."""
import random

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

SEED = 77


class Orchard(gym.Env):
    """Keep the soil of four beds moist while the weather changes; water is not free."""

    BEDS = 4
    SEASON = 120

    def __init__(self):
        self.observation_space = spaces.Box(-2.0, 2.0, (self.BEDS + 2,), np.float32)
        self.action_space = spaces.Discrete(self.BEDS + 1)
        self.thirst = (0.02, 0.03, 0.04, 0.05)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.soil = [0.5] * self.BEDS
        self.heat = float(self.np_random.uniform(0.5, 1.5))
        self.day = 0
        return self._see(), {}

    def _see(self):
        return np.array([*self.soil, self.heat, self.day / self.SEASON], np.float32)

    def step(self, action):
        cost = 0.0
        if action > 0:
            self.soil[action - 1] = min(1.0, self.soil[action - 1] + 0.25)
            cost = 0.05
        self.heat = min(1.8, max(0.3, self.heat + float(self.np_random.normal(0, 0.1))))
        reward = -cost
        for bed in range(self.BEDS):
            self.soil[bed] = max(0.0, self.soil[bed] - self.thirst[bed] * self.heat)
            reward += 0.25 - abs(self.soil[bed] - 0.6)
        self.day += 1
        return self._see(), reward, False, self.day >= self.SEASON, {}


class Progress(BaseCallback):
    """Says now and then how well the beds are kept."""

    def __init__(self, every):
        super().__init__()
        self.every = every
        self.rounds = 0

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.rounds += 1
        if self.rounds % self.every == 0:
            rewards = self.model.rollout_buffer.rewards
            print(f"round {self.rounds} steps {self.num_timesteps} reward {rewards.mean():.3f}", flush=True)


def learning_rate(remaining):
    return 1e-4 + 4e-4 * remaining


def build():
    beds = DummyVecEnv([Orchard for _ in range(16)])
    beds.seed(SEED)
    return PPO(
        "MlpPolicy",
        beds,
        learning_rate=learning_rate,
        n_steps=64,
        batch_size=16,
        n_epochs=4,
        gamma=0.97,
        gae_lambda=0.95,
        ent_coef=0.01,
        policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64])),
        seed=SEED,
        device="cpu",
        verbose=0,
    )


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    model = build()
    model.learn(total_timesteps=8_000_000, callback=Progress(every=10))


if __name__ == "__main__":
    main()
