import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .layout import load_layout

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))


class PickingEnv(gym.Env):
    """One picker with a cart; collects an item from a rack and carries it to a packing station."""

    metadata = {"render_modes": []}

    def __init__(self, layouts=("hall_a", "hall_b", "hall_c"), view=3, max_steps=48):
        self.layouts = list(layouts)
        self.view = view
        self.max_steps = max_steps
        k = 2 * view + 1
        self.observation_space = spaces.Dict({
            "window": spaces.Box(0.0, 1.0, (k * k,), np.float32),
            "state": spaces.Box(-2.0, 2.0, (7,), np.float32),
        })
        self.action_space = spaces.Discrete(len(MOVES))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        rng = self.np_random
        self.plan = load_layout(self.layouts[rng.integers(len(self.layouts))])
        self.padded = np.pad(self.plan.free, self.view).astype(np.float32)
        self.item = self.plan.slots[rng.integers(len(self.plan.slots))]
        self.station = int(rng.integers(len(self.plan.stations)))
        for _ in range(20):
            r = self.item[0] + int(rng.integers(-6, 7))
            c = self.item[1] + int(rng.integers(-6, 7))
            if 0 <= r < self.plan.free.shape[0] and 0 <= c < self.plan.free.shape[1] and self.plan.free[r, c]:
                break
        else:
            r, c = self.item
        self.pos = (r, c)
        self.loaded = False
        self.t = 0
        return self._obs(), {}

    def _obs(self):
        v = self.view
        r, c = self.pos
        h, w = self.plan.free.shape
        win = self.padded[r:r + 2 * v + 1, c:c + 2 * v + 1].ravel()
        goal = self.plan.stations[self.station] if self.loaded else self.item
        state = np.array([r / h, c / w, (goal[0] - r) / h, (goal[1] - c) / w, float(self.loaded),
                          self.plan.dist[self.station, r, c] / (h + w), self.t / self.max_steps], np.float32)
        return {"window": win.copy(), "state": np.clip(state, -2, 2)}

    def step(self, action):
        self.t += 1
        dr, dc = MOVES[int(action)]
        r, c = self.pos[0] + dr, self.pos[1] + dc
        reward = -0.02
        free = self.plan.free
        if 0 <= r < free.shape[0] and 0 <= c < free.shape[1] and free[r, c]:
            before = self._left()
            self.pos = (r, c)
            reward += 0.05 * (before - self._left())
        else:
            reward -= 0.05
        done = False
        if not self.loaded and self.pos == self.item:
            self.loaded = True
            reward += 1.0
        elif self.loaded and self.pos == self.plan.stations[self.station]:
            reward += 2.0
            done = True
        return self._obs(), reward, done, self.t >= self.max_steps, {}

    def _left(self):
        if self.loaded:
            return float(self.plan.dist[self.station, self.pos[0], self.pos[1]])
        return abs(self.pos[0] - self.item[0]) + abs(self.pos[1] - self.item[1])
