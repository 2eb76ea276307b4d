import numpy as np


class PelletEnv:
    """Eat the pellets, keep off the drones. Observation: `stack` binary maps, flattened, uint8."""

    def __init__(self, grid, pellets, episode_steps, stack, seed=0):
        self.grid, self.pellets, self.limit, self.stack = grid, pellets, episode_steps, stack
        self.rng = np.random.default_rng(seed)
        self.n_actions = 4
        self.obs_shape = (stack * 3 * grid * grid,)

    def reset(self):
        g = self.grid
        self.maps = np.zeros((3, g, g), np.uint8)
        cells = self.rng.permutation(g * g)[: self.pellets + 4]
        self.maps[1].flat[cells[: self.pellets]] = 1
        self.me = divmod(int(cells[self.pellets]), g)
        self.drones = [divmod(int(c), g) for c in cells[self.pellets + 1:]]
        self._draw()
        self.frames = np.stack([self.maps] * self.stack)
        self.t = 0
        return self.frames.reshape(-1).copy()

    def _draw(self):
        self.maps[0] = 0
        self.maps[2] = 0
        self.maps[0][self.me] = 1
        for d in self.drones:
            self.maps[2][d] = 1

    def _shift(self, p, a):
        dy, dx = ((0, 1), (1, 0), (0, -1), (-1, 0))[a]
        return (p[0] + dy) % self.grid, (p[1] + dx) % self.grid

    def step(self, a):
        self.me = self._shift(self.me, a)
        self.drones = [self._shift(d, int(k)) for d, k in zip(self.drones, self.rng.integers(4, size=3))]
        reward = float(self.maps[1][self.me])
        self.maps[1][self.me] = 0
        if self.me in self.drones:
            reward -= 1.0
        self._draw()
        self.frames = np.concatenate([self.frames[1:], self.maps[None]])
        self.t += 1
        return self.frames.reshape(-1).copy(), reward, self.t >= self.limit, {}
