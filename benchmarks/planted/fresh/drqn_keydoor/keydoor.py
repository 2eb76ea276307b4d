import numpy as np

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))


class KeyDoor:
    """dark room: sees only the 3x3 cells around it; find the key, then the door"""
    size = 7
    n_actions = 4
    obs_dim = 9 * 3 + 2

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.limit = 60

    def reset(self):
        cells = self.rng.permutation(self.size * self.size)[:3]
        self.me, self.key, self.door = [(int(c) // self.size, int(c) % self.size) for c in cells]
        self.has_key = False
        self.t = 0
        return self.obs()

    def obs(self):
        o = np.zeros(self.obs_dim, np.float32)
        r0, c0 = self.me
        k = 0
        for dr in (-1, 0, 1):
            for dc in (-1, 0, 1):
                r, c = r0 + dr, c0 + dc
                if not (0 <= r < self.size and 0 <= c < self.size):
                    o[k] = 1
                elif (r, c) == self.key and not self.has_key:
                    o[k + 1] = 1
                elif (r, c) == self.door:
                    o[k + 2] = 1
                k += 3
        o[27] = self.has_key
        o[28] = self.t / self.limit
        return o

    def step(self, a):
        dr, dc = MOVES[a]
        r, c = self.me[0] + dr, self.me[1] + dc
        rew = -0.01
        if 0 <= r < self.size and 0 <= c < self.size:
            self.me = (r, c)
        done = False
        if self.me == self.key and not self.has_key:
            self.has_key = True
            rew += 0.5
        if self.me == self.door and self.has_key:
            rew += 1.0
            done = True
        self.t += 1
        return self.obs(), rew, done, self.t >= self.limit
