import gymnasium as gym
import numpy as np
import scipy.fft as sfft

from flow import Kolmogorov2D


class FlowControlEnv(gym.Env):
    """Damp the enstrophy of a turbulent 2-D flow with four vorticity jets.

    Observation: an 8x8 array of point probes plus the last action.
    """

    metadata = {"render_modes": []}

    def __init__(self, n=160, substeps=6, horizon=150, effort=0.02):
        self.sim = Kolmogorov2D(n=n)
        self.substeps = substeps
        self.horizon = horizon
        self.effort = effort
        self.stride = n // 8
        self.action_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (68,), np.float32)

    def _observe(self):
        w = sfft.irfft2(self.w_hat, s=(self.sim.n, self.sim.n))
        probes = w[:: self.stride, :: self.stride].ravel()
        self.enstrophy = float(np.mean(w * w))
        return np.concatenate([probes * 0.1, self.last]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.last = np.zeros(4, np.float32)
        self.w_hat = self.sim.random_state(self.np_random)
        return self._observe(), {}

    def step(self, action):
        a = np.clip(action, -1.0, 1.0).astype(np.float32)
        force = self.sim.f_hat + (3.0 * a[:, None, None] * self.sim.jets).sum(0)
        self.w_hat = self.sim.advance(self.w_hat, force, self.substeps)
        self.last = a
        self.t += 1
        obs = self._observe()
        blown = not np.isfinite(self.enstrophy) or self.enstrophy > 1e4
        reward = -5.0 if blown else -0.05 * self.enstrophy - self.effort * float(a @ a)
        if blown:
            obs = np.zeros_like(obs)
        return obs, reward, blown, self.t >= self.horizon, {}
