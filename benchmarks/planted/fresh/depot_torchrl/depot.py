import pathlib
from collections import deque

import gymnasium as gym
import numpy as np
import yaml
from gymnasium import spaces

LAYOUTS = pathlib.Path(__file__).parent / "layouts"
STEPS = [(0, 1), (0, -1), (1, 0), (-1, 0)]


class Hall:
    """Floor plan with the walking distance to each dock."""

    def __init__(self, spec):
        self.w, self.h = spec["size"]
        self.max_steps = spec["max_steps"]
        self.docks = [tuple(d) for d in spec["docks"]]
        self.blocked = np.zeros((self.w, self.h), bool)
        for s in spec["shelves"]:
            self.blocked[tuple(s["cell"])] = True
        self.free = [tuple(c) for c in np.argwhere(~self.blocked)]
        self.dist = [self._flood(d) for d in self.docks]

    def _flood(self, start):
        dist = np.full((self.w, self.h), 99.0, np.float32)
        dist[start] = 0
        queue = deque([start])
        while queue:
            x, y = queue.popleft()
            for dx, dy in STEPS:
                i, j = x + dx, y + dy
                if 0 <= i < self.w and 0 <= j < self.h and not self.blocked[i, j] and dist[i, j] == 99.0:
                    dist[i, j] = dist[x, y] + 1
                    queue.append((i, j))
        return dist


def load_hall(name):
    with open(LAYOUTS / f"{name}.yaml") as f:
        return Hall(yaml.safe_load(f))


class Depot(gym.Env):
    """A cart has to reach the called dock of a hall; every episode is in one of the halls."""

    def __init__(self, halls=("hall_0", "hall_1", "hall_2", "hall_3")):
        self.halls = list(halls)
        self.observation_space = spaces.Box(-1, 1, (13,), np.float32)
        self.action_space = spaces.Discrete(4)

    def _obs(self):
        x, y = self.pos
        near = []
        for dx, dy in STEPS + [(1, 1), (-1, -1), (1, -1), (-1, 1)]:
            i, j = x + dx, y + dy
            near.append(float(not (0 <= i < self.hall.w and 0 <= j < self.hall.h) or self.hall.blocked[i, j]))
        gx, gy = self.hall.docks[self.dock]
        return np.array(
            near + [x / self.hall.w, y / self.hall.h, (gx - x) / self.hall.w, (gy - y) / self.hall.h, self.t / self.hall.max_steps],
            dtype=np.float32,
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hall = load_hall(self.halls[int(self.np_random.integers(len(self.halls)))])
        self.dock = int(self.np_random.integers(2))
        self.pos = self.hall.free[int(self.np_random.integers(len(self.hall.free)))]
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        dx, dy = STEPS[int(action)]
        x, y = self.pos[0] + dx, self.pos[1] + dy
        old = self.hall.dist[self.dock][self.pos]
        reward = -0.05
        if 0 <= x < self.hall.w and 0 <= y < self.hall.h and not self.hall.blocked[x, y]:
            self.pos = (x, y)
        else:
            reward -= 0.1
        new = self.hall.dist[self.dock][self.pos]
        reward += 0.1 * float(old - new)
        done = new == 0
        return self._obs(), reward + (1.0 if done else 0.0), bool(done), self.t >= self.hall.max_steps, {}
