"""PPO that drives a car around a track."""

import json
import os
import tempfile

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


def write_track(path, points=1500):
    t = np.linspace(0.0, 2.0 * np.pi, points, endpoint=False)
    radius = 1.0 + 0.2 * np.sin(3 * t) + 0.1 * np.cos(5 * t)
    rows = [{"x": float(r * np.cos(a)), "y": float(r * np.sin(a))} for r, a in zip(radius, t)]
    with open(path, "w") as out:
        json.dump(rows, out)


def load_track(path):
    with open(path) as source:
        rows = json.load(source)
    return np.array([[row["x"], row["y"]] for row in rows], dtype=np.float32)[::15]


class TrackEnv(gym.Env):
    """Follow the centre line; an episode ends off the track or after 40 steps."""

    def __init__(self, path):
        self.path = path
        self.observation_space = gym.spaces.Box(-4.0, 4.0, (12,), np.float32)
        self.action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.track = load_track(self.path)
        self.index = int(self.np_random.integers(len(self.track)))
        self.position = self.track[self.index].copy()
        ahead = self.track[(self.index + 1) % len(self.track)] - self.position
        self.heading = float(np.arctan2(ahead[1], ahead[0]))
        self.steps = 0
        return self._observe(), {}

    def _observe(self):
        ahead = self.track.take(range(self.index, self.index + 5), axis=0, mode="wrap")
        pose = (np.cos(self.heading), np.sin(self.heading))
        return np.concatenate(((ahead - self.position).ravel(), pose)).astype(np.float32)

    def step(self, action):
        self.heading += 0.2 * (int(action) - 1)
        self.position += (0.06 * np.cos(self.heading), 0.06 * np.sin(self.heading))
        gap = self.track - self.position
        distance = np.einsum("ij,ij->i", gap, gap)
        nearest = int(distance.argmin())
        progress = (nearest - self.index + 50) % 100 - 50
        self.index = nearest
        self.steps += 1
        off = bool(distance[nearest] > 0.04)
        return self._observe(), float(progress), off, self.steps >= 40, {}


def make_env(path, seed):
    def thunk():
        env = Monitor(TrackEnv(path))
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    path = os.path.join(tempfile.mkdtemp(prefix="track_"), "track.json")
    write_track(path)
    env = DummyVecEnv([make_env(path, 20 + i) for i in range(16)])
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=4,
        learning_rate=3e-4,
        gamma=0.98,
        seed=20,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()
