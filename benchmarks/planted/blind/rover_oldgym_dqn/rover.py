import json
import os

import numpy as np
from scipy import ndimage
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])


class RoverEnv:
    """Old-style gym env (0.19 at the time): reset() -> obs, step() -> obs, rew, done, info.
    The rover drives over a height map to the base; battery drains uphill."""

    n_actions = 4
    obs_size = 5 * 5 + 5

    def __init__(self, site="crater", max_steps=40, seed=0):
        self.site = site
        self.max_steps = max_steps
        self.rng = np.random.RandomState(seed)
        self.terrain = None

    def _load_site(self):
        with open(os.path.join(ASSETS, self.site + ".json")) as f:
            raw = json.load(f)
        h = np.asarray(raw["height"], dtype=np.float32).reshape(raw["rows"], raw["cols"])
        h = ndimage.gaussian_filter(h, 1.5)
        h = (h - h.min()) / (h.max() - h.min())
        self.base = tuple(raw["base"])
        rows, cols = h.shape
        # travel cost to the base for the shaping term
        ids = np.arange(rows * cols).reshape(rows, cols)
        a = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
        b = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
        flat = h.ravel()
        w = 1.0 + 20 * np.abs(flat[a] - flat[b])
        g = csr_matrix((w, (a, b)), shape=(rows * cols,) * 2)
        self.cost = dijkstra(g, directed=False, indices=ids[self.base]).reshape(rows, cols).astype(np.float32)
        self.cost /= self.cost.max()
        self.padded = np.pad(h, 2, constant_values=2.0)
        self.terrain = h

    def reset(self):
        self._load_site()
        self.slip = self.rng.uniform(0, 0.15)
        self.pos = self.rng.randint(4, self.terrain.shape[0] - 4, size=2)
        self.battery = 1.0
        self.t = 0
        return self._observe()

    def _observe(self):
        r, c = self.pos
        out = np.empty(self.obs_size, np.float32)
        out[:25] = self.padded[r:r + 5, c:c + 5].ravel() - self.terrain[r, c]
        out[25] = (self.base[0] - r) / 32.0
        out[26] = (self.base[1] - c) / 32.0
        out[27] = self.battery
        out[28] = self.t / self.max_steps
        out[29] = self.slip
        return out

    def step(self, action):
        r, c = self.pos
        if self.rng.rand() >= self.slip:
            nr, nc = r + MOVES[action][0], c + MOVES[action][1]
        else:
            nr, nc = r, c
        H, W = self.terrain.shape
        rew = -0.02
        if 0 <= nr < H and 0 <= nc < W:
            climb = self.terrain[nr, nc] - self.terrain[r, c]
            self.battery -= 0.005 + 0.5 * max(climb, 0.0)
            rew += 5.0 * float(self.cost[r, c] - self.cost[nr, nc])
            self.pos = (nr, nc)
        else:
            rew -= 0.1
        self.t += 1
        done = False
        if tuple(self.pos) == self.base:
            rew += 3.0
            done = True
        elif self.battery <= 0 or self.t >= self.max_steps:
            done = True
        return self._observe(), rew, done, {}

    def render(self, mode="human"):
        g = np.full(self.terrain.shape, ".")
        g[tuple(self.pos)] = "R"
        g[self.base] = "B"
        print("\n".join("".join(x) for x in g))
