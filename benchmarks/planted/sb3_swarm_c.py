"""PPO that steers a drone through a moving swarm."""

import math

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

SWARM = 120
SECTORS = 16
RANGE = 0.5


class SwarmEnv(gym.Env):
    """Fly towards the goal; sectors around the drone tell how near the others are."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-2.0, 2.0, (SECTORS + 4,), np.float32)
        self.action_space = gym.spaces.Discrete(8)
        angles = np.arange(8) * (2.0 * math.pi / 8)
        self.moves = 0.03 * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(0.0, 1.0, 2)
        self.goal = self.np_random.uniform(0.0, 1.0, 2)
        self.swarm = self.np_random.uniform(0.0, 1.0, (SWARM, 2))
        self.speed = self.np_random.uniform(-0.01, 0.01, (SWARM, 2))
        self.time = 0
        return self._observe(), {}

    def _sectors(self):
        nearest = [RANGE] * SECTORS
        for other in self.swarm:
            dx = other[0] - self.position[0]
            dy = other[1] - self.position[1]
            distance = math.sqrt(dx * dx + dy * dy)
            angle = math.atan2(dy, dx)
            sector = int((angle + math.pi) / (2.0 * math.pi) * SECTORS) % SECTORS
            if distance < nearest[sector]:
                nearest[sector] = distance
        return np.array(nearest)

    def _observe(self):
        parts = (self._sectors(), self.position, self.goal - self.position)
        return np.concatenate(parts).astype(np.float32)

    def step(self, action):
        before = math.dist(self.position, self.goal)
        self.position = np.minimum(np.maximum(self.position + self.moves[action], 0.0), 1.0)
        self.swarm = (self.swarm + self.speed) % 1.0
        self.time += 1
        obs = self._observe()
        after = math.dist(self.position, self.goal)
        hit = float(obs[:SECTORS].min()) < 0.02
        reward = before - after - (0.5 if hit else 0.0)
        return obs, reward, after < 0.05, self.time >= 100, {}


def make_env(seed: int):
    def thunk():
        env = Monitor(SwarmEnv())
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    seed, num_envs = 6, 16
    env = DummyVecEnv([make_env(seed + i) for i in range(num_envs)])
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=4,
        learning_rate=3e-4,
        gamma=0.98,
        seed=seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()
