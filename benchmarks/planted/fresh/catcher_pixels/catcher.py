import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Catcher(gym.Env):
    """Fruit falls, a basket catches; 44x44 grey picture."""

    SIDE = 44

    def __init__(self, n_fruit=3, lives=3):
        self.n_fruit, self.max_lives = n_fruit, lives
        self.observation_space = spaces.Box(0, 255, (self.SIDE, self.SIDE, 1), np.uint8)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.basket = self.SIDE // 2
        self.fruit = [self._spawn(-10 * k) for k in range(self.n_fruit)]
        self.lives, self.t = self.max_lives, 0
        return self._draw(), {}

    def _spawn(self, y=0):
        return [y, int(self.np_random.integers(3, self.SIDE - 3)), int(self.np_random.integers(1, 3))]

    def _draw(self):
        img = np.zeros((self.SIDE, self.SIDE, 1), np.uint8)
        for y, x, _ in self.fruit:
            if y >= 0:
                img[y:y + 3, x - 1:x + 2] = 180
        img[-3:, self.basket - 4:self.basket + 5] = 255
        return img

    def step(self, action):
        self.t += 1
        self.basket = min(self.SIDE - 5, max(4, self.basket + 2 * (int(action) - 1)))
        r = 0.0
        for k, f in enumerate(self.fruit):
            f[0] += f[2]
            if f[0] >= self.SIDE - 3:
                hit = abs(f[1] - self.basket) <= 5
                r += 1.0 if hit else -1.0
                self.lives -= not hit
                self.fruit[k] = self._spawn()
        return self._draw(), r, self.lives <= 0, self.t >= 600, {}
