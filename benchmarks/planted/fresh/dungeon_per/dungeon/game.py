import numpy as np

N_ACTIONS = 4
OBS_SIZE = 26


class Game:
    """Key, door, treasure, two wandering guards. Knows nothing of gym."""

    def __init__(self, size=9, max_moves=120, seed=None):
        self.size, self.max_moves = size, max_moves
        self.rng = np.random.RandomState(seed)

    def new_game(self):
        cells = self.rng.permutation(self.size * self.size)[:5]
        self.hero, self.key, self.chest, g1, g2 = [[int(c) // self.size, int(c) % self.size] for c in cells]
        self.guards = [g1, g2]
        self.has_key, self.moves = 0, 0
        return self.observe()

    def observe(self):
        s = self.size
        o = np.zeros(OBS_SIZE, np.float32)
        o[0:2] = self.hero[0] / s, self.hero[1] / s
        for k, it in enumerate((self.key, self.chest, *self.guards)):
            dr, dc = it[0] - self.hero[0], it[1] - self.hero[1]
            o[2 + 6 * k:8 + 6 * k] = dr / s, dc / s, dr > 0, dr < 0, dc > 0, dc < 0
        if self.has_key:
            o[2:8] = -1.0
        return o

    def _move(self, who, a):
        r = who[0] + (a == 1) - (a == 0)
        c = who[1] + (a == 3) - (a == 2)
        if 0 <= r < self.size and 0 <= c < self.size:
            who[0], who[1] = int(r), int(c)

    def step(self, a):
        self.moves += 1
        self._move(self.hero, a)
        if self.moves % 2:
            for g in self.guards:
                self._move(g, self.rng.randint(4))
        rew, done = -0.01, False
        if not self.has_key and self.hero == self.key:
            self.has_key, rew = 1, 0.5
        elif self.has_key and self.hero == self.chest:
            rew, done = 1.0, True
        if self.hero in self.guards:
            rew, done = -1.0, True
        if self.moves >= self.max_moves:
            done = True
        return self.observe(), rew, done, {"has_key": self.has_key}
