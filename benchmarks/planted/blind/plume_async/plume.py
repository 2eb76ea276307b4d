import gymnasium as gym
import numpy as np


class PlumeEnv(gym.Env):
    """Find the source of a gas leak. Gas is advected/diffused spectrally on a periodic field.

    actions: stay, N, E, S, W (3 cells each)
    obs: 21x21 window of the (log) concentration + wind + own position, flat
    """

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, size=160, win=21, horizon=250, seed=None):
        self.N, self.w, self.horizon = size, win, horizon
        self.observation_space = gym.spaces.Box(-10, 10, (win * win + 4,), np.float32)
        self.action_space = gym.spaces.Discrete(5)
        k = 2 * np.pi * np.fft.fftfreq(size)
        kr = 2 * np.pi * np.fft.rfftfreq(size)
        self.ky, self.kx = k[:, None], kr[None, :]
        self.decay = np.exp(-0.08 * (self.ky**2 + self.kx**2) * 4) * 0.995
        self.mv = np.array([[0, 0], [-3, 0], [0, 3], [3, 0], [0, -3]])
        yy, xx = np.mgrid[0:size, 0:size]
        self.yy, self.xx = yy, xx
        self.reward_range_ = (-1, 10)

    def _obs(self):
        h = self.w // 2
        iy = (np.arange(-h, h + 1) + self.pos[0]) % self.N
        ix = (np.arange(-h, h + 1) + self.pos[1]) % self.N
        win = np.log1p(np.maximum(self.c[np.ix_(iy, ix)], 0)).ravel()
        extra = np.array([self.wind[0], self.wind[1], self.pos[0] / self.N, self.pos[1] / self.N])
        return np.concatenate([win, extra]).astype(np.float32)

    def _info(self):
        d = (self.src - self.pos + self.N / 2) % self.N - self.N / 2
        return {
            "dist": float(np.abs(d).sum()),
            "field": self.c.copy(),
            "belief": self.belief.copy(),
            "trail": self.trail.copy(),
            "wind": self.wind.astype(np.float32),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        r = self.np_random
        self.src = r.integers(0, self.N, 2)
        self.pos = r.integers(0, self.N, 2)
        self.wind = r.normal(0, 0.8, 2)
        self.c = np.zeros((self.N, self.N))
        self.belief = np.full((self.N, self.N), 1.0 / self.N**2)
        self.trail = np.zeros((self.N, self.N))
        d2 = (self.yy - self.src[0]) ** 2 + (self.xx - self.src[1]) ** 2
        self.emit = 4.0 * np.exp(-d2 / 6.0)
        self.t = 0
        return self._obs(), self._info()

    def step(self, a):
        self.wind = 0.97 * self.wind + 0.15 * self.np_random.normal(size=2)
        shift = np.exp(-1j * (self.ky * self.wind[0] * 2 + self.kx * self.wind[1] * 2))
        self.c = np.fft.irfft2(np.fft.rfft2(self.c + self.emit) * self.decay * shift, s=self.c.shape)
        self.pos = (self.pos + self.mv[int(a)]) % self.N
        self.trail *= 0.98
        self.trail[self.pos[0], self.pos[1]] = 1.0
        # crude belief: mass goes where we have smelt something
        hit = max(self.c[self.pos[0], self.pos[1]], 0.0)
        self.belief[self.pos[0], self.pos[1]] += 0.01 * hit
        self.belief /= self.belief.sum()
        self.t += 1
        info = self._info()
        found = info["dist"] < 4
        rew = (10.0 if found else -0.02) + 0.05 * float(np.log1p(hit))
        return self._obs(), rew, bool(found), self.t >= self.horizon, info
