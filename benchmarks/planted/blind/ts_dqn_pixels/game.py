import gymnasium as gym
import numpy as np

SZ = 64


PAD = 8
_oy, _ox = [x.ravel() for x in np.mgrid[-4:5, -4:5]]
_od = _oy**2 + _ox**2


def paint(img, b, px):
    big = np.zeros((SZ + 2 * PAD, SZ + 2 * PAD), np.uint8)
    cy = np.clip(b[:, 0], -4, SZ + 3).astype(np.int64)[:, None] + PAD + _oy
    cx = b[:, 1].astype(np.int64)[:, None] + PAD + _ox
    on = _od <= ((2.5 + b[:, 4]) ** 2)[:, None]
    col = np.broadcast_to(np.where(b[:, 5] > 0, 160, 255)[:, None], on.shape)
    big[cy[on], cx[on]] = col[on]
    img[:] = big[PAD:-PAD, PAD:-PAD]
    x0 = int(px)
    img[SZ - 4 : SZ - 2, max(0, x0 - 5) : x0 + 6] = 220


class Catch(gym.Env):
    """catch the grey ones, avoid the white ones. 3 stacked uint8 frames."""

    def __init__(self, n=6, horizon=400):
        self.n, self.horizon = n, horizon
        self.observation_space = gym.spaces.Box(0, 255, (3, SZ, SZ), np.uint8)
        self.action_space = gym.spaces.Discrete(3)
        self.frames = np.zeros((3, SZ, SZ), np.uint8)

    def _spawn(self, m):
        k = int(m.sum())
        r = self.np_random
        self.b[m, 0] = -r.random(k) * 20
        self.b[m, 1] = r.uniform(4, SZ - 4, k)
        self.b[m, 2] = r.uniform(0.8, 2.0, k)
        self.b[m, 3] = r.normal(0, 0.4, k)
        self.b[m, 4] = r.random(k) * 1.5
        self.b[m, 5] = np.where(r.random(k) < 0.6, 1, -1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.b = np.zeros((self.n, 6))
        self._spawn(np.ones(self.n, bool))
        self.px, self.t = SZ / 2, 0
        for i in range(3):
            paint(self.frames[i], self.b, self.px)
        return self.frames.copy(), {}

    def step(self, a):
        self.px = min(max(self.px + (int(a) - 1) * 2.5, 5), SZ - 6)
        b = self.b
        b[:, 0] += b[:, 2]
        b[:, 1] = np.clip(b[:, 1] + b[:, 3], 3, SZ - 4)
        low = b[:, 0] > SZ - 5
        r = 0.0
        if low.any():
            hit = low & (np.abs(b[:, 1] - self.px) < 7)
            r = float((b[:, 5] * hit).sum())
            self._spawn(low)
        self.frames[:2] = self.frames[1:]
        paint(self.frames[2], b, self.px)
        self.t += 1
        return self.frames.copy(), r, False, self.t >= self.horizon, {}
