"""A2C: an operator opens vents so that a dye plume stays in the middle of a tank (spectral flow solver)."""
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium import spaces

SEED = 29
TANKS = 4
SIDE = 256
STEPS = 16
ITERS = 20_000
GAMMA = 0.97


class PlumeEnv(gym.Env):
    """Dye is carried by a vorticity field; both are advanced in Fourier space, dealiased."""

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (36,), np.float32)
        self.action_space = spaces.Discrete(5)
        k = np.fft.fftfreq(SIDE, 1.0 / SIDE).astype(np.float32)
        kr = np.fft.rfftfreq(SIDE, 1.0 / SIDE).astype(np.float32)
        self.ikx, self.iky = np.complex64(1j) * kr[None, :], np.complex64(1j) * k[:, None]
        k2 = kr[None, :] ** 2 + k[:, None] ** 2
        self.inv = (1.0 / np.where(k2 == 0, 1.0, k2)).astype(np.float32)
        self.inv[0, 0] = 0.0
        self.keep = ((np.abs(k)[:, None] < SIDE / 3) & (kr[None, :] < SIDE / 3)).astype(np.float32)
        self.decay = np.exp(-2e-3 * k2).astype(np.float32) * self.keep
        ax = (np.arange(SIDE) * (2 * np.pi / SIDE)).astype(np.float32)
        self.spec = np.zeros((6, SIDE, SIDE // 2 + 1), np.complex64)
        self.flux = np.zeros((2, SIDE, SIDE), np.float32)
        self.x, self.y = np.meshgrid(ax, ax)
        spots = [(1.0, 1.0), (5.3, 1.0), (1.0, 5.3), (5.3, 5.3)]
        bump = [np.exp(-3 * ((self.x - cx) ** 2 + (self.y - cy) ** 2)) for cx, cy in spots]
        self.vents = [np.float32(0.3) * np.fft.rfft2(b - b.mean()) for b in bump]
        self.middle = np.exp(-0.5 * ((self.x - np.pi) ** 2 + (self.y - np.pi) ** 2))
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        low = self.np_random.normal(0, 1.0, (8, 5)) + 1j * self.np_random.normal(0, 1.0, (8, 5))
        self.wh = np.zeros((SIDE, SIDE // 2 + 1), np.complex64)
        self.wh[:8, :5] = low * SIDE * SIDE * 0.05
        self.wh[0, 0] = 0
        cx, cy = self.np_random.uniform(2.2, 4.0, 2)
        self.dye = np.exp(-2 * ((self.x - np.float32(cx)) ** 2 + (self.y - np.float32(cy)) ** 2))
        self.dh = np.fft.rfft2(self.dye)
        self.t = 0
        return self._sense(), {}

    def _sense(self):
        blocks = self.dye.reshape(4, SIDE // 4, 4, SIDE // 4).mean(axis=(1, 3)).ravel()
        low = self.wh[:2, 1:6].ravel() / (SIDE * SIDE)
        return np.concatenate([blocks * 4, low.real, low.imag]).astype(np.float32)

    def step(self, action):
        if action > 0:
            self.wh = self.wh + self.vents[int(action) - 1]
        psi = self.wh * self.inv
        f = self.spec
        np.multiply(psi, self.iky, out=f[0])
        np.multiply(psi, -self.ikx, out=f[1])
        np.multiply(self.wh, self.ikx, out=f[2])
        np.multiply(self.wh, self.iky, out=f[3])
        np.multiply(self.dh, self.ikx, out=f[4])
        np.multiply(self.dh, self.iky, out=f[5])
        u, v, wx, wy, dx, dy = np.fft.irfft2(f, s=(SIDE, SIDE))
        self.flux[0] = u * wx + v * wy
        self.flux[1] = u * dx + v * dy
        push = np.fft.rfft2(self.flux) * np.float32(0.03)
        self.wh = (self.wh - push[0]) * self.decay
        self.dh = (self.dh - push[1]) * self.decay
        self.dye = np.fft.irfft2(self.dh, s=(SIDE, SIDE))
        self.t += 1
        reward = float((self.dye * self.middle).sum() / (np.abs(self.dye).sum() + 1e-6))
        return self._sense(), reward, False, self.t >= 120, {}


class Operator(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = nn.Sequential(nn.Linear(36, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.out = nn.Linear(64, 6)

    def forward(self, x):
        y = self.out(self.core(x))
        return torch.log_softmax(y[:, :5], -1), y[:, 5]


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    tanks = gym.vector.AsyncVectorEnv([PlumeEnv for _ in range(TANKS)], context="fork")
    operator = Operator()
    opt = torch.optim.RMSprop(operator.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    obs, _ = tanks.reset(seed=SEED)
    used, t0 = 0, time.time()
    S = np.zeros((STEPS, TANKS, 36), np.float32)
    A = np.zeros((STEPS, TANKS), np.int64)
    R, D, G = (np.zeros((STEPS, TANKS), np.float32) for _ in range(3))
    for it in range(ITERS):
        with torch.no_grad():
            for t in range(STEPS):
                logp, _ = operator(torch.from_numpy(obs))
                S[t] = obs
                A[t] = torch.multinomial(logp.exp(), 1).squeeze(1).numpy()
                obs, R[t], term, trunc, _ = tanks.step(A[t])
                D[t] = term | trunc
                used += TANKS
            ret = operator(torch.from_numpy(obs))[1].numpy()
        for t in range(STEPS - 1, -1, -1):
            ret = R[t] + GAMMA * (1 - D[t]) * ret
            G[t] = ret
        logp, val = operator(torch.from_numpy(S.reshape(-1, 36)))
        adv = torch.from_numpy(G.reshape(-1)) - val
        taken = logp.gather(1, torch.from_numpy(A.reshape(-1, 1))).squeeze(1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(taken * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(operator.parameters(), 0.5)
        opt.step()
        if it % 50 == 0:
            print(f"{it} steps {used} reward {R.mean():.4f} {time.time() - t0:.0f}s", flush=True)
    tanks.close()


if __name__ == "__main__":
    main()
