"""A batch of 2-D rockets that have to land softly on a pad (old gym API, vectorised numpy)."""
import numpy as np


class RocketBatch:
    obs_dim = 8
    n_actions = 4          # nothing, main, left, right

    def __init__(self, n, seed=0, dt=0.05, limit=300):
        self.n = n
        self.dt = dt
        self.limit = limit
        self.rng = np.random.RandomState(seed)
        self.s = np.zeros((n, 6), dtype=np.float32)     # x y vx vy th om
        self.t = np.zeros(n, dtype=np.int64)
        self.ret = np.zeros(n, dtype=np.float32)
        self.fuel = np.ones(n, dtype=np.float32)

    def _spawn(self, k):
        s = np.zeros((k, 6), dtype=np.float32)
        s[:, 0] = self.rng.uniform(-1.0, 1.0, k)
        s[:, 1] = self.rng.uniform(1.2, 1.8, k)
        s[:, 2] = self.rng.uniform(-0.3, 0.3, k)
        s[:, 3] = self.rng.uniform(-0.4, 0.0, k)
        s[:, 4] = self.rng.uniform(-0.3, 0.3, k)
        return s

    def _obs(self):
        return np.concatenate([self.s[:, :4], np.sin(self.s[:, 4:5]), np.cos(self.s[:, 4:5]), self.s[:, 5:6],
                               self.fuel[:, None]], axis=1)

    def _potential(self):
        x, y, vx, vy, th = self.s[:, 0], self.s[:, 1], self.s[:, 2], self.s[:, 3], self.s[:, 4]
        return -(np.sqrt(x * x + y * y) + 0.5 * np.sqrt(vx * vx + vy * vy) + 0.5 * np.abs(th))

    def reset(self):
        self.s[:] = self._spawn(self.n)
        self.t[:] = 0
        self.ret[:] = 0
        self.fuel[:] = 1
        return self._obs()

    def step(self, actions):
        dt = self.dt
        main = (actions == 1) & (self.fuel > 0)
        side = (actions == 3).astype(np.float32) - (actions == 2).astype(np.float32)
        before = self._potential()
        s = self.s
        thrust = 2.2 * main
        s[:, 2] += dt * (-thrust * np.sin(s[:, 4]))
        s[:, 3] += dt * (thrust * np.cos(s[:, 4]) - 1.0)
        s[:, 5] += dt * 1.5 * side
        s[:, 5] *= 0.99
        s[:, 0] += dt * s[:, 2]
        s[:, 1] += dt * s[:, 3]
        s[:, 4] += dt * s[:, 5]
        self.fuel -= 0.004 * main
        self.t += 1
        reward = 2.0 * (self._potential() - before) - 0.003 * main
        touch = s[:, 1] <= 0
        soft = touch & (np.abs(s[:, 0]) < 0.25) & (s[:, 3] > -0.35) & (np.abs(s[:, 4]) < 0.25)
        lost = (np.abs(s[:, 0]) > 2.0) | (s[:, 1] > 2.5) | (touch & ~soft)
        reward = (reward + 5.0 * soft - 2.0 * lost).astype(np.float32)
        done = soft | lost | (self.t >= self.limit)
        self.ret += reward
        info = {}
        if done.any():
            idx = np.nonzero(done)[0]
            info["returns"] = self.ret[idx].tolist()
            info["landed"] = int(soft.sum())
            s[idx] = self._spawn(len(idx))
            self.t[idx] = 0
            self.ret[idx] = 0
            self.fuel[idx] = 1
        return self._obs(), reward, done, info
