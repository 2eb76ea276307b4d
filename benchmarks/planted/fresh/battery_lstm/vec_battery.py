import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from market import synth_prices


class BatteryVecEnv(VecEnv):
    """All batteries advance together in numpy."""

    def __init__(self, num_envs, window=24, episode_hours=168, seed=0):
        self.data = synth_prices(seed=seed)
        self.window, self.len = window, episode_hours
        self.rng = np.random.default_rng(seed)
        obs = spaces.Box(-np.inf, np.inf, (window, self.data.shape[1] + 1), np.float32)
        super().__init__(num_envs, obs, spaces.Discrete(5))
        self.levels = np.array([-1.0, -0.5, 0.0, 0.5, 1.0], np.float32)
        self.offsets = np.arange(window) - window + 1
        self.ret = np.zeros(num_envs)

    def _start(self, mask):
        n = int(mask.sum())
        self.t0[mask] = self.rng.integers(self.window, len(self.data) - self.len - 1, n)
        self.k[mask] = 0
        self.soc[mask] = self.rng.uniform(0.2, 0.8, n)
        self.hist[mask] = self.soc[mask, None]
        self.ret[mask] = 0

    def reset(self):
        n = self.num_envs
        self.t0, self.k = np.zeros(n, int), np.zeros(n, int)
        self.soc, self.hist = np.zeros(n, np.float32), np.zeros((n, self.window), np.float32)
        self._start(np.ones(n, bool))
        return self._obs()

    def _obs(self):
        rows = (self.t0 + self.k)[:, None] + self.offsets
        return np.concatenate([self.data[rows], self.hist[:, :, None]], -1)

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        power = self.levels[self.actions]
        new = np.clip(self.soc + 0.2 * power, 0, 1)
        price = self.data[self.t0 + self.k, 0]
        bought = new - self.soc
        cost = price * np.where(bought > 0, bought / 0.95, bought * 0.95)
        self.soc = new
        self.hist = np.concatenate([self.hist[:, 1:], new[:, None]], 1)
        self.k += 1
        rew = (-cost).astype(np.float32)
        self.ret += rew
        done = self.k >= self.len
        obs = self._obs()
        infos = [{} for _ in range(self.num_envs)]
        if done.any():
            for i in np.flatnonzero(done):
                infos[i] = {"terminal_observation": obs[i].copy(), "TimeLimit.truncated": True,
                            "episode": {"r": float(self.ret[i]), "l": self.len, "t": 0.0}}
            self._start(done)
            obs = self._obs()
        return obs, rew, done, infos

    def close(self):
        pass

    def get_attr(self, name, indices=None):
        return [getattr(self, name, None)] * self.num_envs

    def set_attr(self, name, value, indices=None):
        setattr(self, name, value)

    def env_method(self, name, *a, indices=None, **kw):
        return [getattr(self, name)(*a, **kw)]

    def env_is_wrapped(self, cls, indices=None):
        return [False] * self.num_envs
