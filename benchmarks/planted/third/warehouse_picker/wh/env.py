"""Single picker robot on a small warehouse floor."""
import gymnasium as gym
import numpy as np

MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0))


class WarehouseEnv(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self, size=12, n_orders=3, max_steps=200):
        super().__init__()
        self.size = size
        self.n_orders = n_orders
        self.max_steps = max_steps
        floor = np.zeros((size + 4, size + 4), np.float32)
        floor[:2], floor[-2:], floor[:, :2], floor[:, -2:] = 1, 1, 1, 1
        for x in range(2, size - 2, 3):
            floor[x + 2, 4 : size - 1] = 1          # shelf rows
        self.floor = floor
        self.free = [tuple(p) for p in np.argwhere(floor[2:-2, 2:-2] == 0)]
        box = gym.spaces.Box
        self.observation_space = gym.spaces.Dict(
            {
                "position": box(0.0, 1.0, (2,), np.float32),
                "target": box(0.0, 1.0, (2,), np.float32),
                "delta": box(-1.0, 1.0, (2,), np.float32),
                "battery": box(0.0, 1.0, (1,), np.float32),
                "orders_left": box(0.0, 1.0, (1,), np.float32),
                "carrying": box(0.0, 1.0, (1,), np.float32),
                "local_map": box(0.0, 1.0, (5, 5), np.float32),
                "last_move": box(0.0, 1.0, (4,), np.float32),
            }
        )
        self.action_space = gym.spaces.Discrete(4)

    def _draw_cell(self):
        return self.free[int(self.np_random.integers(len(self.free)))]

    def _obs(self):
        s = self.size
        x, y = self.pos
        tx, ty = self.target
        move = np.zeros(4, np.float32)
        move[self.last] = 1.0
        return {
            "position": np.array((x / s, y / s), np.float32),
            "target": np.array((tx / s, ty / s), np.float32),
            "delta": np.array(((tx - x) / s, (ty - y) / s), np.float32),
            "battery": np.array((self.battery,), np.float32),
            "orders_left": np.array((self.orders / self.n_orders,), np.float32),
            "carrying": np.array((self.carrying,), np.float32),
            "local_map": self.floor[x : x + 5, y : y + 5].copy(),
            "last_move": move,
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos = self._draw_cell()
        self.target = self._draw_cell()
        self.battery = 1.0
        self.orders = self.n_orders
        self.carrying = 0.0
        self.last = 0
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        a = int(action)
        dx, dy = MOVES[a]
        x, y = self.pos[0] + dx, self.pos[1] + dy
        reward = -0.02
        before = abs(self.target[0] - self.pos[0]) + abs(self.target[1] - self.pos[1])
        if self.floor[x + 2, y + 2] == 0:
            self.pos = (x, y)
        else:
            reward -= 0.1
        after = abs(self.target[0] - self.pos[0]) + abs(self.target[1] - self.pos[1])
        reward += 0.05 * (before - after)
        self.last = a
        self.battery = max(self.battery - 0.004, 0.0)
        self.t += 1
        done = False
        if self.pos == self.target:
            reward += 1.0
            if self.carrying:
                self.orders -= 1
            self.carrying = 1.0 - self.carrying
            self.target = self._draw_cell()
            done = self.orders == 0
        return self._obs(), reward, done, self.t >= self.max_steps, {}
