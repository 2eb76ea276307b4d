import numpy as np

SIZE = 16


class CatchGame:
    """Many boards at once: catch the falling fruit, avoid the stones. Old gym API, 4-tuples of arrays.

    The agent sees the drawn board: planes paddle, fruit, stones, trail of the last positions.
    """

    n_actions = 3
    shape = (4, SIZE, SIZE)

    def __init__(self, n, seed=0, falling=5, lives=5):
        self.n = n
        self.falling = falling
        self.lives0 = lives
        self.rng = np.random.default_rng(seed)
        self.rows = np.arange(n)
        self.each = np.repeat(self.rows, falling)
        self.frame = np.zeros((n,) + self.shape, np.uint8)

    def reset(self):
        n, f = self.n, self.falling
        self.paddle = np.full(n, SIZE // 2)
        self.x = self.rng.integers(0, SIZE, (n, f))
        self.y = -self.rng.integers(0, SIZE, (n, f))
        self.stone = self.rng.random((n, f)) < 0.4
        self.lives = np.full(n, self.lives0)
        self.score = np.zeros(n)
        self.length = np.zeros(n, np.int64)
        return self.render()

    def render(self):
        """Draw all boards; the frame is the observation."""
        img = self.frame
        img[:, 3] = np.maximum(img[:, 1], img[:, 2]) // 2 + img[:, 3] // 4
        img[:, :3] = 0
        for dx in (-1, 0, 1):
            img[self.rows, 0, SIZE - 1, np.clip(self.paddle + dx, 0, SIZE - 1)] = 255
        x, y, plane = self.x.ravel(), self.y.ravel(), 1 + self.stone.ravel()
        ok = y >= 0
        img[self.each[ok], plane[ok], y[ok], x[ok]] = 255
        return img

    def step(self, action):
        self.paddle = np.clip(self.paddle + action - 1, 1, SIZE - 2)
        self.y = self.y + 1
        self.length += 1
        down = self.y >= SIZE - 1
        caught = down & (np.abs(self.x - self.paddle[:, None]) <= 1)
        good = caught & ~self.stone
        bad = (caught & self.stone) | (down & ~caught & ~self.stone)
        reward = (good.sum(1) - 0.5 * bad.sum(1)).astype(np.float32)
        self.lives = self.lives - bad.sum(1)
        self.score += reward
        k = int(down.sum())
        if k:
            self.x[down] = self.rng.integers(0, SIZE, k)
            self.y[down] = -self.rng.integers(0, 6, k)
            self.stone[down] = self.rng.random(k) < 0.4
        done = (self.lives <= 0) | (self.length >= 400)
        info = {}
        if done.any():
            info["score"] = self.score[done].tolist()
            self.lives[done] = self.lives0
            self.score[done] = 0
            self.length[done] = 0
            self.frame[done] = 0
        return self.render(), reward, done, info
