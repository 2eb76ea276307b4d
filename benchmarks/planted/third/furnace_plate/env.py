import gymnasium as gym
import numpy as np

from plate import Plate


class FurnaceEnv(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self, n=120, dt=0.002, substeps=5, horizon=120):
        self.plate = Plate(n, dt, substeps)
        self.horizon = horizon
        probes = len(self.plate.probe)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (9,), np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (probes + 10,), np.float32)

    def _obs(self):
        head = (self.temp - self.plate.target)[self.plate.probe]
        return np.concatenate([head, self.power, [self.t / self.horizon]]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.power = np.zeros(9, np.float32)
        self.temp = np.full(self.plate.n**2, self.np_random.uniform(0.0, 0.5), np.float32)
        return self._obs(), {}

    def step(self, action):
        power = 20.0 * (np.clip(action, -1.0, 1.0).astype(np.float32) + 1.0)
        self.temp = self.plate.advance(self.temp, power)
        err = self.temp - self.plate.target
        reward = -float(np.mean(err * err)) - 1e-4 * float(np.abs(power - self.power).sum())
        self.power = power * np.float32(0.025)
        self.t += 1
        return self._obs(), reward, False, self.t >= self.horizon, {}
