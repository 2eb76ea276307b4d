import numpy as np
import gymnasium as gym
from gymnasium import spaces

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))


class WarehouseEnv(gym.Env):
    """One robot, a few orders. Pick at shelf, drop at gate (0, 0)."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, width=9, height=7, n_orders=3, max_steps=120, slip=0.05, render_mode=None):
        super().__init__()
        self.w, self.h = width, height
        self.n_orders = n_orders
        self.max_steps = max_steps
        self.slip = slip
        self.render_mode = render_mode
        # x, y, carrying, then (dx, dy, open) for every order
        self.observation_space = spaces.Box(-1.0, 1.0, shape=(3 + 3 * n_orders,), dtype=np.float32)
        self.action_space = spaces.Discrete(5)
        self._buf = np.zeros(3 + 3 * n_orders, dtype=np.float32)

    def _obs(self):
        b = self._buf
        b[0] = self.x / self.w
        b[1] = self.y / self.h
        b[2] = 1.0 if self.carry >= 0 else 0.0
        k = 3
        for ox, oy, is_open in self.orders:
            b[k] = (ox - self.x) / self.w
            b[k + 1] = (oy - self.y) / self.h
            b[k + 2] = is_open
            k += 3
        return b.copy()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        r = self.np_random
        self.x, self.y = int(r.integers(self.w)), int(r.integers(self.h))
        xs = r.integers(1, self.w, size=self.n_orders).tolist()
        ys = r.integers(1, self.h, size=self.n_orders).tolist()
        self.orders = [[a, b, 1.0] for a, b in zip(xs, ys)]
        self.carry = -1
        self.delivered = 0
        self.t = 0
        return self._obs(), {}

    def step(self, a):
        a = int(a)
        self.t += 1
        rew = -0.01
        if a < 4:
            if self.np_random.random() < self.slip:
                a = (a + 1) % 4
            dx, dy = MOVES[a]
            self.x = min(max(self.x + dx, 0), self.w - 1)
            self.y = min(max(self.y + dy, 0), self.h - 1)
            if self.x == 0 and self.y == 0 and self.carry >= 0:
                self.carry = -1
                self.delivered += 1
                rew += 1.0
        else:
            rew -= 0.01
            if self.carry < 0:
                for i, o in enumerate(self.orders):
                    if o[2] > 0 and o[0] == self.x and o[1] == self.y:
                        o[2] = 0.0
                        self.carry = i
                        rew += 0.3
                        break
        done = self.delivered == self.n_orders
        trunc = self.t >= self.max_steps
        info = {"delivered": self.delivered} if (done or trunc) else {}
        return self._obs(), rew, done, trunc, info

    def render(self):
        rows = [["."] * self.w for _ in range(self.h)]
        for ox, oy, o in self.orders:
            if o:
                rows[oy][ox] = "o"
        rows[self.y][self.x] = "R"
        return "\n".join("".join(r) for r in rows)
