import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

PILLARS = ((-2.0, 1.0, 0.8), (1.5, 1.5, 0.6), (0.0, -1.5, 1.0), (2.5, -2.0, 0.7))


class SwarmVecEnv(VecEnv):
    """n drones, each on its own errand among the same pillars; every drone counts as one environment."""

    def __init__(self, n_drones=64, limit=200, seed=0):
        self.limit = limit
        self.rng = np.random.default_rng(seed)
        obs = spaces.Box(-np.inf, np.inf, (6 + 3 * len(PILLARS),), np.float32)
        super().__init__(n_drones, obs, spaces.Box(-1.0, 1.0, (2,), np.float32))
        self.pos = np.zeros((n_drones, 2))
        self.vel = np.zeros((n_drones, 2))
        self.goal = np.zeros((n_drones, 2))
        self.t = np.zeros(n_drones, int)
        self.ret = np.zeros(n_drones)

    def _respawn(self, i):
        self.pos[i] = self.rng.uniform(-4, 4, 2)
        self.goal[i] = self.rng.uniform(-4, 4, 2)
        self.vel[i] = 0
        self.t[i] = 0
        self.ret[i] = 0

    def reset(self):
        for i in range(self.num_envs):
            self._respawn(i)
        return self._observe()

    def _observe(self):
        parts = [self.pos, self.vel, self.goal - self.pos]
        self.gap = np.full(self.num_envs, np.inf)
        for x, y, r in PILLARS:
            d = np.array([x, y]) - self.pos
            dist = np.sqrt((d * d).sum(1)) - r
            self.gap = np.minimum(self.gap, dist)
            parts += [d, dist[:, None]]
        return np.concatenate(parts, 1).astype(np.float32)

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        before = np.linalg.norm(self.goal - self.pos, axis=1)
        self.vel = 0.9 * self.vel + 0.1 * self.actions
        self.pos = self.pos + 0.3 * self.vel
        self.t += 1
        obs = self._observe()
        left = np.linalg.norm(self.goal - self.pos, axis=1)
        hit = (self.gap < 0) | (np.abs(self.pos) > 6).any(1)
        there = left < 0.3
        reward = (before - left - 2.0 * hit + 3.0 * there).astype(np.float32)
        self.ret += reward
        late = self.t >= self.limit
        done = hit | there | late
        infos = [{} for _ in range(self.num_envs)]
        if done.any():
            for i in np.flatnonzero(done):
                infos[i] = {"terminal_observation": obs[i].copy(), "TimeLimit.truncated": bool(late[i] and not (hit[i] or there[i])),
                            "is_success": bool(there[i]),
                            "episode": {"r": float(self.ret[i]), "l": int(self.t[i]), "t": 0.0}}
                self._respawn(i)
            obs = self._observe()
        return obs, reward, done, infos

    def close(self):
        pass

    def get_attr(self, name, indices=None):
        return [getattr(self, name, None)] * self.num_envs

    def set_attr(self, name, value, indices=None):
        setattr(self, name, value)

    def env_method(self, name, *args, indices=None, **kw):
        return [getattr(self, name)(*args, **kw)]

    def env_is_wrapped(self, cls, indices=None):
        return [False] * self.num_envs
