"""Rovers that collect ore on rocky ground. One rover per world, all worlds are stepped together."""
import numpy as np

from config import WorldConfig

FREE, ROCK, ORE = 0, 1, 2
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]])


class RoverWorlds:
    def __init__(self, cfg: WorldConfig, seed: int = 0):
        self.cfg = cfg
        self.n = cfg.n_worlds
        self.rng = np.random.default_rng(seed)
        self.grid = np.zeros((self.n, cfg.size, cfg.size), np.int8)
        self.pos = np.zeros((self.n, 2), np.int64)
        self.t = np.zeros(self.n, np.int64)
        self.ret = np.zeros(self.n, np.float32)
        angles = np.linspace(0, 2 * np.pi, cfg.n_rays, endpoint=False)
        dist = np.arange(1, cfg.reach + 1)
        # cell offsets along every ray: (rays, reach, 2)
        self.offsets = np.rint(np.stack([np.sin(angles)[:, None] * dist, np.cos(angles)[:, None] * dist], -1)).astype(int)
        self.idx = np.arange(self.n)
        self.obs_dim = 2 * cfg.n_rays + 3
        self.n_actions = len(MOVES)

    def _regenerate(self, which):
        c = self.cfg
        k = len(which)
        if k == 0:
            return
        u = self.rng.random((k, c.size, c.size))
        g = np.where(u < c.rock_density, ROCK, np.where(u < c.rock_density + c.ore_density, ORE, FREE)).astype(np.int8)
        g[:, 0, :] = g[:, -1, :] = ROCK
        g[:, :, 0] = g[:, :, -1] = ROCK
        pos = self.rng.integers(2, c.size - 2, size=(k, 2))
        g[np.arange(k), pos[:, 0], pos[:, 1]] = FREE
        self.grid[which] = g
        self.pos[which] = pos
        self.t[which] = 0
        self.ret[which] = 0

    def _scan(self):
        """For every ray: closeness of the first rock, and of the first ore before it."""
        reach = self.cfg.reach
        view = np.zeros((self.n, self.cfg.n_rays, 2), np.float32)
        for i in range(self.n):
            grid, (y, x) = self.grid[i], self.pos[i]
            for r, ray in enumerate(self.offsets):
                for d, (dy, dx) in enumerate(ray):
                    cell = grid[y + dy, x + dx]
                    if cell == ROCK:
                        view[i, r, 0] = 1.0 - d / reach
                        break
                    if cell == ORE and view[i, r, 1] == 0:
                        view[i, r, 1] = 1.0 - d / reach
        return view

    def observe(self):
        c = self.cfg
        obs = np.empty((self.n, self.obs_dim), np.float32)
        obs[:, :-3] = self._scan().reshape(self.n, -1)
        obs[:, -3:-1] = self.pos / c.size - 0.5
        obs[:, -1] = self.t / c.max_steps
        return obs

    def reset(self):
        self._regenerate(self.idx)
        return self.observe()

    def step(self, action):
        target = self.pos + MOVES[action]
        cell = self.grid[self.idx, target[:, 0], target[:, 1]]
        blocked = cell == ROCK
        self.pos = np.where(blocked[:, None], self.pos, target)
        found = cell == ORE
        self.grid[self.idx[found], self.pos[found, 0], self.pos[found, 1]] = FREE
        reward = (found * 1.0 - blocked * 0.1 - 0.01).astype(np.float32)
        self.t += 1
        self.ret += reward
        done = self.t >= self.cfg.max_steps
        finished = self.ret[done].tolist()
        self._regenerate(self.idx[done])
        return self.observe(), reward, done, finished
