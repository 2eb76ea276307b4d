"""PPO on CartPole with normalised observations and rewards."""

from collections import deque

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


class CheckedEnv(gym.Wrapper):
    """Every observation and action must lie in its space."""

    def step(self, action):
        assert self.action_space.contains(int(action))
        obs, reward, terminated, truncated, info = self.env.step(action)
        assert self.observation_space.contains(obs.astype(np.float32))
        assert np.isfinite(obs).all() and np.isfinite(reward)
        return obs, reward, terminated, truncated, info


class WindowNormalize(gym.ObservationWrapper):
    """Scale by mean and deviation of the last observations."""

    def __init__(self, env, size=200):
        super().__init__(env)
        self.window = deque(maxlen=size)

    def observation(self, observation):
        self.window.append(observation)
        past = np.stack(self.window)
        scaled = (observation - past.mean(axis=0)) / (past.std(axis=0) + 1e-3)
        return np.clip(scaled, -5.0, 5.0).astype(np.float32)


class RewardScale(gym.RewardWrapper):
    """Divide by the deviation of the recent rewards."""

    def __init__(self, env, size=200):
        super().__init__(env)
        self.window = deque(maxlen=size)

    def reward(self, reward):
        self.window.append(reward)
        return float(reward / (1.0 + np.std(self.window)))


class DictObservation(gym.ObservationWrapper):
    """Name the parts of the observation."""

    def __init__(self, env):
        super().__init__(env)
        part = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = gym.spaces.Dict({"cart": part, "pole": part})

    def observation(self, observation):
        return {"cart": observation[:2], "pole": observation[2:]}


def make_env(seed: int):
    def thunk():
        env = gym.make("CartPole-v1")
        env = CheckedEnv(env)
        env = WindowNormalize(env)
        env = RewardScale(env)
        env = gym.wrappers.FlattenObservation(DictObservation(env))
        env = Monitor(env)
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    env = DummyVecEnv([make_env(30 + i) for i in range(16)])
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=4,
        learning_rate=3e-4,
        gamma=0.98,
        seed=30,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()
