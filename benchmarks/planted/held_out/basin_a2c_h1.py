"""A2C: a wave-maker learns to calm a water basin. The basin is a small 2-D wave solver in numpy."""
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium import spaces

SEED = 8
BASINS = 4
CELLS = 120
INNER = 80
STEPS = 16
ITERS = 20_000
GAMMA = 0.97


class BasinEnv(gym.Env):
    """Paddles on two walls push water; the probe grid sees height and speed at 5x5 places."""

    def __init__(self, tag=0):
        self.observation_space = spaces.Box(-10, 10, (52,), np.float32)
        self.action_space = spaces.Discrete(5)
        self.tag = tag
        ax = np.linspace(-1, 1, CELLS, dtype=np.float32)
        self.xx, self.yy = np.meshgrid(ax, ax)
        self.h = np.zeros((CELLS, CELLS), np.float32)
        self.v = np.zeros_like(self.h)
        self.lap = np.zeros_like(self.h)
        self.soft = np.zeros_like(self.h)
        self.paddle = np.zeros(2, np.float32)
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.h[:] = 0
        self.v[:] = 0
        for _ in range(4):
            cx, cy = self.np_random.uniform(-0.7, 0.7, 2)
            size = self.np_random.uniform(0.4, 1.0)
            self.h += (size * np.exp(-30 * ((self.xx - cx) ** 2 + (self.yy - cy) ** 2))).astype(np.float32)
        self.paddle[:] = 0
        self.t = 0
        return self._probe(), {}

    def _probe(self):
        idx = np.linspace(8, CELLS - 9, 5).astype(int)
        sub = np.ix_(idx, idx)
        return np.concatenate([self.h[sub].ravel(), self.v[sub].ravel() * 5, self.paddle]).astype(np.float32)

    def _advance(self):
        h, v, lap = self.h, self.v, self.lap
        for _ in range(INNER):
            np.multiply(h[1:-1, 1:-1], -4.0, out=lap[1:-1, 1:-1])
            lap[1:-1, 1:-1] += h[2:, 1:-1]
            lap[1:-1, 1:-1] += h[:-2, 1:-1]
            lap[1:-1, 1:-1] += h[1:-1, 2:]
            lap[1:-1, 1:-1] += h[1:-1, :-2]
            lap *= 0.2
            v += lap
            v *= 0.999
            h += v
            h[0], h[-1] = h[1], h[-2]
            h[:, 0], h[:, -1] = h[:, 1], h[:, -2]
            h[:, 1] += 0.004 * self.paddle[0]
            h[:, -2] += 0.004 * self.paddle[1]
            np.tanh(h, out=self.soft)
            self.soft -= h
            self.soft *= 0.05
            h += self.soft

    def step(self, action):
        if action > 0:
            side, push = divmod(int(action) - 1, 2)
            self.paddle[side] = np.clip(self.paddle[side] + (0.25 if push else -0.25), -1, 1)
        self.paddle *= 0.9
        self._advance()
        self.h -= self.h.mean()
        self.t += 1
        energy = float(np.mean(self.h**2) + 4 * np.mean(self.v**2))
        return self._probe(), -5.0 * energy, False, self.t >= 100, {}


class Net(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy = nn.Linear(64, n_act)
        self.critic = nn.Linear(64, 1)

    def forward(self, x):
        z = self.trunk(x)
        return torch.log_softmax(self.policy(z), -1), self.critic(z).squeeze(-1)


def make_basins():
    return gym.vector.SyncVectorEnv([lambda i=i: BasinEnv(i) for i in range(BASINS)])


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    envs = make_basins()
    net = Net(52, 5)
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    obs, _ = envs.reset(seed=SEED)
    frames, t0 = 0, time.time()
    for it in range(ITERS):
        S, A, R, D = [], [], [], []
        for _ in range(STEPS):
            with torch.no_grad():
                logp, _ = net(torch.from_numpy(obs))
                act = torch.multinomial(logp.exp(), 1).squeeze(1).numpy()
            S.append(obs.copy())
            A.append(act)
            obs, rew, term, trunc, _ = envs.step(act)
            R.append(rew)
            D.append(np.logical_or(term, trunc))
            frames += BASINS
        with torch.no_grad():
            boot = net(torch.from_numpy(obs))[1].numpy()
        G = np.zeros((STEPS, BASINS), np.float32)
        for t in reversed(range(STEPS)):
            boot = R[t] + GAMMA * boot * (1.0 - D[t])
            G[t] = boot
        logp, val = net(torch.from_numpy(np.concatenate(S)))
        taken = logp.gather(1, torch.from_numpy(np.concatenate(A)).unsqueeze(1)).squeeze(1)
        adv = torch.from_numpy(G.reshape(-1)) - val
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(taken * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if it % 50 == 0:
            print(f"{it} frames {frames} r {np.mean(R):.4f} loss {loss.item():.4f} {time.time() - t0:.0f}s", flush=True)
    envs.close()


if __name__ == "__main__":
    main()
