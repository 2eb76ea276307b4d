import numpy as np

SIZE = 12


class FruitGame:
    """Snake on a small board. reward, over, score = game.play_step(action)"""

    TURN = {0: 0, 1: 1, 2: -1}
    DIRS = [(-1, 0), (0, 1), (1, 0), (0, -1)]

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.heading = int(self.rng.integers(4))
        self.body = [(SIZE // 2, SIZE // 2)]
        self.planes = np.zeros((3, SIZE, SIZE), np.float32)  # head, body, fruit
        self.planes[0, SIZE // 2, SIZE // 2] = 1
        self.score, self.hunger = 0, 0
        self._place_fruit()

    def _place_fruit(self):
        while True:
            y, x = self.rng.integers(0, SIZE, 2).tolist()
            if (y, x) not in self.body:
                break
        self.fruit = (y, x)
        self.planes[2] = 0
        self.planes[2, y, x] = 1

    def state(self):
        # board turned so that the head always looks up
        return np.rot90(self.planes, self.heading, axes=(1, 2)).copy()

    def play_step(self, action):
        self.heading = (self.heading + self.TURN[action]) % 4
        y, x = self.body[0]
        dy, dx = self.DIRS[self.heading]
        head = (y + dy, x + dx)
        self.hunger += 1
        if not (0 <= head[0] < SIZE and 0 <= head[1] < SIZE) or head in self.body[:-1] or self.hunger > 100 + 20 * len(self.body):
            return -1.0, True, self.score
        self.body.insert(0, head)
        self.planes[0, y, x] = 0
        self.planes[1, y, x] = 1
        self.planes[0, head[0], head[1]] = 1
        if head == self.fruit:
            self.score += 1
            self.hunger = 0
            self._place_fruit()
            reward = 1.0
        else:
            ty, tx = self.body.pop()
            self.planes[1, ty, tx] = 0
            reward = -0.005
        return reward, False, self.score
