import gymnasium as gym
import numpy as np


class EnergyBonus(gym.Wrapper):
    """potential based: adds k * (gamma * E' - E)"""

    def __init__(self, env, k=25.0, gamma=0.99):
        super().__init__(env)
        self.k, self.gamma = k, gamma
        self.e = 0.0

    @staticmethod
    def energy(o):
        return 0.5 * float(o[1]) ** 2 * 100 + 0.0025 * np.sin(3 * float(o[0])) * 10

    def reset(self, **kw):
        o, i = self.env.reset(**kw)
        self.e = self.energy(o)
        return o, i

    def step(self, a):
        o, r, d, t, i = self.env.step(a)
        e2 = self.energy(o)
        r2 = r + self.k * (self.gamma * e2 - self.e)
        self.e = e2
        return o, r2 * 0.1, d, t, i


class ScaleObs(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-3, 3, (2,), np.float32)

    def observation(self, o):
        return np.array([(o[0] + 0.3) / 0.9, o[1] / 0.07], dtype=np.float32)
