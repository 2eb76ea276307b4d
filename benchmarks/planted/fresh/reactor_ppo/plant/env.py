import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from .surrogate import Surrogate

N_STATE, N_ACTION = 10, 3


class ReactorEnv(gym.Env):
    """Keep concentration and temperature at their set points over a cloud of uncertain scenarios."""

    def __init__(self, ensemble=5, hidden=128, scenarios=64, horizon=200, substeps=4):
        self.model = Surrogate(N_STATE, N_ACTION, ensemble, hidden)
        self.ensemble, self.scenarios, self.horizon, self.substeps = ensemble, scenarios, horizon, substeps
        self.observation_space = spaces.Box(-10, 10, (2 * N_STATE + 2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (N_ACTION,), np.float32)

    def _obs(self):
        flat = self.s.reshape(-1, N_STATE)
        return torch.cat([flat.mean(0), flat.std(0), self.target]).numpy().astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        r = self.np_random
        base = r.normal(0, 0.5, N_STATE)
        cloud = base + r.normal(0, 0.1, (self.ensemble, self.scenarios, N_STATE))
        self.s = torch.as_tensor(cloud, dtype=torch.float32)
        self.target = torch.as_tensor(r.uniform(-0.5, 0.5, 2), dtype=torch.float32)
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        a = torch.as_tensor(action, dtype=torch.float32).expand(self.ensemble, self.scenarios, -1)
        for _ in range(self.substeps):
            self.s = self.model(self.s, a)
        self.t += 1
        err = (self.s[..., :2] - self.target).pow(2).sum(-1)
        reward = -float(err.mean()) - 0.5 * float(err.max()) - 0.01 * float(np.square(action).sum())
        return self._obs(), reward, False, self.t >= self.horizon, {}
