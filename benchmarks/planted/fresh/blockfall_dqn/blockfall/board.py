import gymnasium as gym
import numpy as np
from gymnasium import spaces

PIECES = [np.array(p, np.int8) for p in ([[1, 1], [1, 1]], [[1, 1, 1, 1]], [[1, 1, 0], [0, 1, 1]], [[0, 1, 0], [1, 1, 1]],
                                         [[1, 0], [1, 0], [1, 1]])]


class BlockFall(gym.Env):
    """Drop pieces into a well; action = column x rotation."""

    def __init__(self, rows=20, cols=10, max_pieces=200):
        self.rows, self.cols, self.max_pieces = rows, cols, max_pieces
        self.shapes = [[np.rot90(p, k).copy() for k in range(4)] for p in PIECES]
        self.bottoms = [[np.array([int(np.flatnonzero(s[:, c])[-1]) for c in range(s.shape[1])]) for s in rots]
                        for rots in self.shapes]
        self.observation_space = spaces.Box(0, 1, (2 * rows * cols + len(PIECES),), np.float32)
        self.action_space = spaces.Discrete(4 * cols)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.well = np.zeros((self.rows, self.cols), np.int8)
        self.n = 0
        self.piece = int(self.np_random.integers(len(PIECES)))
        return self._obs(), {}

    def _tops(self):
        filled = self.well.any(0)
        return np.where(filled, self.well.argmax(0), self.rows)

    def _obs(self):
        shadow = np.arange(self.rows)[:, None] >= self._tops()
        o = np.zeros(self.observation_space.shape, np.float32)
        k = self.rows * self.cols
        o[:k] = self.well.ravel()
        o[k:2 * k] = shadow.ravel()
        o[2 * k + self.piece] = 1
        return o

    def step(self, action):
        rot, col = divmod(int(action), self.cols)
        s, bot = self.shapes[self.piece][rot], self.bottoms[self.piece][rot]
        col = min(col, self.cols - s.shape[1])
        top = int((self._tops()[col:col + s.shape[1]] - bot).min()) - 1
        self.n += 1
        if top < 0:
            return self._obs(), -2.0, True, False, {}
        self.well[top:top + s.shape[0], col:col + s.shape[1]] |= s
        full = self.well.all(1)
        k = int(full.sum())
        if k:
            self.well = np.concatenate([np.zeros((k, self.cols), np.int8), self.well[~full]])
        self.piece = int(self.np_random.integers(len(PIECES)))
        return self._obs(), 0.05 + k * k, False, self.n >= self.max_pieces, {"lines": k}
