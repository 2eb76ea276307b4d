"""AGV in a yard: occupancy grid, 2D lidar, local costmap."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy.ndimage import distance_transform_edt, gaussian_filter


class YardEnv(gym.Env):
    def __init__(self, size=512, n_beams=180, max_range=160, horizon=300, seed=0):
        self.size = size
        self.n_beams = n_beams
        self.max_range = max_range
        self.horizon = horizon
        self.angles = np.linspace(-np.pi, np.pi, n_beams, endpoint=False)
        self.radii = np.arange(1, max_range, dtype=np.float64)
        self.observation_space = spaces.Box(-5, 5, (n_beams + 5,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self._yard_rng = np.random.default_rng(seed)
        self._build_yard()

    def _build_yard(self):
        s, rng = self.size, self._yard_rng
        occ = np.zeros((s, s), bool)
        occ[:6] = occ[-6:] = True
        occ[:, :6] = occ[:, -6:] = True
        for _ in range(38):
            r, c = rng.integers(10, s - 40, 2)
            h, w = rng.integers(6, 26, 2)
            occ[r:r + h, c:c + w] = True
        self.occ = occ
        self.clearance = distance_transform_edt(~occ).astype(np.float32)
        self.static_cost = np.exp(-self.clearance / 6.0).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.pos = self._free_cell()
        self.goal = self._free_cell()
        self.heading = self.np_random.uniform(-np.pi, np.pi)
        self.speed = 0.0
        n = 6
        self.movers = self.np_random.uniform(20, self.size - 20, (n, 2))
        self.mover_vel = self.np_random.uniform(-1.5, 1.5, (n, 2))
        self.best = np.linalg.norm(self.goal - self.pos)
        self._update_costmap()
        return self._observe(), {}

    def _free_cell(self):
        while True:
            p = self.np_random.uniform(12, self.size - 12, 2)
            if self.clearance[int(p[0]), int(p[1])] > 6:
                return p

    def _update_costmap(self):
        lo = np.clip(self.pos.astype(int) - 96, 0, self.size - 192)
        layer = np.zeros((192, 192), np.float32)
        m = (self.movers - lo).astype(int)
        keep = ((m >= 0) & (m < 192)).all(1)
        layer[m[keep, 0], m[keep, 1]] = 60.0
        layer = gaussian_filter(layer, 4.0)
        self.window = (lo, layer)

    def _lidar(self):
        a = self.angles + self.heading
        pts = self.pos[:, None, None] + self.radii * np.stack([np.cos(a), np.sin(a)])[:, :, None]
        ij = np.clip(pts, 0, self.size - 1).astype(np.int32)
        hit = self.occ[ij[0], ij[1]]
        d = np.where(hit.any(1), hit.argmax(1), self.max_range - 2)
        self.scan = pts[:, np.arange(self.n_beams), d].T
        return d / self.max_range

    def _observe(self):
        d = self.goal - self.pos
        r = np.linalg.norm(d)
        b = np.arctan2(d[1], d[0]) - self.heading
        lo, layer = self.window
        i, j = np.clip(self.pos.astype(int) - lo, 0, 191)
        tail = [r / self.size, np.cos(b), np.sin(b), self.speed / 4, layer[i, j]]
        return np.concatenate([self._lidar(), tail]).astype(np.float32)

    def step(self, action):
        self.t += 1
        self.speed = np.clip(self.speed + 0.8 * float(action[0]), 0, 4)
        self.heading += 0.3 * float(action[1])
        nxt = self.pos + self.speed * np.array([np.cos(self.heading), np.sin(self.heading)])
        self.movers += self.mover_vel
        out = (self.movers < 10) | (self.movers > self.size - 10)
        self.mover_vel[out] *= -1
        crash = bool(self.occ[int(nxt[0]), int(nxt[1])])
        if not crash:
            self.pos = nxt
        else:
            self.speed = 0.0
        self._update_costmap()
        obs = self._observe()
        dist = float(np.linalg.norm(self.goal - self.pos))
        reward = 0.1 * (self.best - dist) - 0.5 * crash - 0.2 * float(obs[-1])
        self.best = dist
        reached = dist < 8
        lo, layer = self.window
        full = self.static_cost.copy()
        full[lo[0]:lo[0] + 192, lo[1]:lo[1] + 192] += layer
        info = {
            "success": reached,
            "costmap": full,
            "clearance": self.clearance,
            "scan": self.scan,
            "pose": np.array([*self.pos, self.heading]),
        }
        return obs, reward + 10 * reached, reached, self.t >= self.horizon, info
