"""Observation pipeline shared by all warehouse experiments."""
import gymnasium as gym
import numpy as np
from gymnasium.wrappers import (
    ClipReward,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    RecordEpisodeStatistics,
    TransformObservation,
)


class CheckedSpaces(gym.Wrapper):
    """Fail early if a floor layout produces something outside the declared spaces."""

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        assert self.observation_space.contains(obs), obs
        return obs, info

    def step(self, action):
        assert self.action_space.contains(action), action
        obs, reward, terminated, truncated, info = self.env.step(action)
        assert self.observation_space.contains(obs), obs
        return obs, reward, terminated, truncated, info


class SensorNoise(gym.ObservationWrapper):
    """Small Gaussian noise on everything the robot measures itself."""

    MEASURED = ("position", "delta", "battery")

    def __init__(self, env, sigma=0.01):
        super().__init__(env)
        self.sigma = sigma
        self.rng = np.random.default_rng(0)

    def observation(self, obs):
        obs = dict(obs)
        for key in self.MEASURED:
            space = self.observation_space[key]
            noisy = obs[key] + self.rng.normal(0.0, self.sigma, space.shape)
            obs[key] = np.clip(noisy, space.low, space.high).astype(space.dtype)
        return obs


def float_box(space):
    return gym.spaces.Box(-np.inf, np.inf, space.shape, np.float32)


def build_pipeline(env, history=4, sigma=0.01):
    env = SensorNoise(env, sigma)
    env = CheckedSpaces(env)
    env = FlattenObservation(env)
    env = NormalizeObservation(env)
    env = TransformObservation(env, lambda o: np.clip(o, -10, 10).astype(np.float32), float_box(env.observation_space))
    env = FrameStackObservation(env, history)
    env = FlattenObservation(env)
    env = ClipReward(env, -1.0, 1.0)
    env = RecordEpisodeStatistics(env)
    return env
