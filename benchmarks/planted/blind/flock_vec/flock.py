"""
Evader vs 6 drones, B copies in one numpy batch. Straight SB3 VecEnv, no gym.Env underneath.
"""
import time

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env.base_vec_env import VecEnv


class FlockVec(VecEnv):
    def __init__(self, n=64, drones=6, horizon=240, seed=0):
        self.render_mode = None
        self.m, self.H = drones, horizon
        self.rng = np.random.default_rng(seed)
        ob = spaces.Box(-10, 10, (4 + 4 * drones,), np.float32)
        super().__init__(n, ob, spaces.Box(-1, 1, (2,), np.float32))
        self.p = np.zeros((n, 2), np.float32)
        self.v = np.zeros((n, 2), np.float32)
        self.dp = np.zeros((n, drones, 2), np.float32)
        self.dv = np.zeros((n, drones, 2), np.float32)
        self.t = np.zeros(n, np.int64)
        self.ret = np.zeros(n, np.float64)
        self.t0 = time.time()

    def _spawn(self, idx):
        k = len(idx)
        self.p[idx] = self.rng.uniform(-0.3, 0.3, (k, 2))
        self.v[idx] = 0
        a = self.rng.uniform(0, 2 * np.pi, (k, self.m))
        self.dp[idx] = 1.3 * np.stack((np.cos(a), np.sin(a)), -1)
        self.dv[idx] = 0
        self.t[idx] = 0
        self.ret[idx] = 0

    def _obs(self):
        n = self.num_envs
        rel = self.dp - self.p[:, None]
        return np.concatenate((self.p, self.v, rel.reshape(n, -1), self.dv.reshape(n, -1)), 1)

    def reset(self):
        self._spawn(np.arange(self.num_envs))
        self._reset_seeds()
        return self._obs()

    def step_async(self, actions):
        self.a = np.clip(actions, -1, 1).astype(np.float32)

    def step_wait(self):
        self.v = 0.85 * self.v + 0.12 * self.a
        self.p = self.p + 0.5 * self.v
        d = self.p[:, None] - self.dp
        dist = np.sqrt((d * d).sum(-1, keepdims=True)) + 1e-6
        pair = self.dp[:, :, None] - self.dp[:, None]
        pd2 = (pair * pair).sum(-1, keepdims=True) + 0.05
        sep = (pair / pd2).sum(2) * 0.004
        self.dv = 0.9 * self.dv + 0.018 * d / dist + sep
        self.dp = self.dp + 0.5 * self.dv
        self.t += 1
        near = dist[..., 0].min(1)
        out = np.abs(self.p).max(1) > 1.5
        caught = near < 0.09
        rew = (0.02 + 0.03 * np.minimum(near, 0.5) - 1.0 * (caught | out)).astype(np.float32)
        self.ret += rew
        trunc = self.t >= self.H
        done = caught | out | trunc
        obs = self._obs()
        infos = [{} for _ in range(self.num_envs)]
        idx = np.flatnonzero(done)
        if idx.size:
            now = time.time() - self.t0
            for i in idx:
                infos[i] = {"terminal_observation": obs[i].copy(), "TimeLimit.truncated": bool(trunc[i] and not caught[i]),
                            "episode": {"r": float(self.ret[i]), "l": int(self.t[i]), "t": now}}
            self._spawn(idx)
            obs = self._obs()
        return obs, rew, done, infos

    def close(self):
        pass

    def get_attr(self, name, indices=None):
        return [getattr(self, name)] * len(list(self._get_indices(indices)))

    def set_attr(self, name, value, indices=None):
        setattr(self, name, value)

    def env_method(self, name, *a, indices=None, **k):
        raise NotImplementedError

    def env_is_wrapped(self, cls, indices=None):
        return [False] * len(list(self._get_indices(indices)))
