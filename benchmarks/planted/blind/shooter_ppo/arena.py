import numpy as np

W, H = 20, 24
N_AL = 6
LEFT, RIGHT, FIRE, WAIT = range(4)


class Arena:
    """one lane-shooter. tick(action) gives back (points, finished); look() gives the observation"""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.x = 0
        self.aliens = []
        self.bullets = []
        self.kills = 0
        self.restart()

    def restart(self):
        self.x = W // 2
        self.cool = 0
        self.clock = 0
        self.kills = 0
        r = self.rng.integers(0, W, N_AL).tolist()
        h = self.rng.integers(H - 8, H, N_AL).tolist()
        self.aliens = [[a, b] for a, b in zip(r, h)]
        return self.look()

    def look(self):
        o = np.zeros(2 + 2 * N_AL, np.float32)
        o[0] = self.x / W
        o[1] = self.cool / 4
        o[2:] = [v for a in self.aliens for v in ((a[0] - self.x) / W, a[1] / H)]
        return o

    def tick(self, a):
        pts = -0.01
        self.clock += 1
        if a == LEFT:
            self.x = max(0, self.x - 1)
        elif a == RIGHT:
            self.x = min(W - 1, self.x + 1)
        elif a == FIRE and self.cool == 0:
            self.bullets.append([self.x, 0])
            self.cool = 4
            pts -= 0.02
        if self.cool:
            self.cool -= 1

        for b in self.bullets:
            b[1] += 2
        down = self.clock % 3 == 0
        for al in self.aliens:
            if down:
                al[1] -= 1
        # hits
        for b in self.bullets:
            if b[1] > H:
                continue
            for al in self.aliens:
                if al[0] == b[0] and 0 <= b[1] - al[1] < 2:
                    pts += 1.0
                    self.kills += 1
                    b[1] = H + 1
                    al[0] = int(self.rng.integers(0, W))
                    al[1] = H
                    break
        lost = any(al[1] <= 0 for al in self.aliens)
        if lost:
            pts -= 2.0
        return pts, lost or self.clock >= 300
