"""Two balls fall on a 12x9 board, a paddle of width 2 has to be below both. Old gym API: 4-tuples."""
import numpy as np


class DoubleCatch:
    n_actions = 3

    def __init__(self, height=12, width=9, seed=0):
        self.h, self.w = height, width
        self.rng = np.random.RandomState(seed)
        self.obs_size = 7

    def seed(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.paddle = self.w // 2
        self.balls = [[0, self.rng.randint(self.w), self.rng.randint(-1, 2)],
                      [-4, self.rng.randint(self.w), self.rng.randint(-1, 2)]]
        self.caught = 0
        return self._obs()

    def _obs(self):
        (y1, x1, v1), (y2, x2, v2) = self.balls
        return np.array([self.paddle / self.w, y1 / self.h, x1 / self.w, v1, y2 / self.h, x2 / self.w, v2], dtype=np.float32)

    def step(self, action):
        self.paddle = min(max(self.paddle + action - 1, 0), self.w - 2)
        reward = 0.0
        for ball in self.balls:
            if ball[0] >= self.h:
                continue
            ball[0] += 1
            ball[1] += ball[2]
            if ball[1] < 0 or ball[1] >= self.w:
                ball[2] = -ball[2]
                ball[1] += 2 * ball[2]
            if ball[0] == self.h:
                hit = self.paddle <= ball[1] <= self.paddle + 1
                reward += 1.0 if hit else -1.0
                self.caught += hit
        done = all(b[0] >= self.h for b in self.balls)
        return self._obs(), reward, done, {"caught": self.caught} if done else {}
