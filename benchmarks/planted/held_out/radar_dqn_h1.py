"""DQN for a patrol boat that watches a coarse radar picture and dodges or chases contacts."""
import random

import numpy as np
import torch
from torch import nn

H, W = 12, 16
ACTIONS = 5


class RadarSea:
    def __init__(self, boats, seed):
        self.boats = boats
        self.rng = np.random.default_rng(seed)
        self.yy, self.xx = np.mgrid[0:H, 0:W].astype(np.float32)
        self.me = np.zeros((boats, 2), np.float32)
        self.contacts = np.zeros((boats, 4, 2), np.float32)
        self.drift = np.zeros((boats, 4, 2), np.float32)
        self.t = np.zeros(boats, int)
        self.delta = np.array([[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]], np.float32)
        self._restart(np.ones(boats, bool))

    def _restart(self, m):
        k = int(m.sum())
        if k == 0:
            return
        span = np.array([H - 1, W - 1], np.float32)
        self.me[m] = self.rng.random((k, 2), np.float32) * span
        self.contacts[m] = self.rng.random((k, 4, 2), np.float32) * span
        self.drift[m] = self.rng.normal(0, 0.3, (k, 4, 2)).astype(np.float32)
        self.t[m] = 0

    def picture(self):
        def blob(p):
            return np.exp(-((self.yy - p[..., 0, None, None]) ** 2 + (self.xx - p[..., 1, None, None]) ** 2))

        c = blob(self.contacts)
        img = c[:, 0] - c[:, 1:].sum(1) + 2.0 * blob(self.me)
        return img.reshape(self.boats, H * W)

    def step(self, a):
        span = np.array([H - 1, W - 1], np.float32)
        self.me = np.clip(self.me + self.delta[a], 0, span)
        self.contacts = self.contacts + self.drift
        wall = (self.contacts < 0) | (self.contacts > span)
        self.drift[wall] *= -1
        self.contacts = np.clip(self.contacts, 0, span)
        dist = np.abs(self.contacts - self.me[:, None]).sum(-1)
        caught = dist[:, 0] < 1.0
        hit = dist[:, 1:].min(1) < 0.8
        self.t += 1
        reward = 1.0 * caught - 1.0 * hit - 0.01 * dist[:, 0]
        done = caught | hit | (self.t >= 80)
        seen = self.picture()
        self._restart(done)
        return seen, reward, done


class Replay:
    def __init__(self, limit):
        self.limit = limit
        self.items = []
        self.at = 0

    def add(self, item):
        if len(self.items) < self.limit:
            self.items.append(item)
        else:
            self.items[self.at] = item
        self.at = (self.at + 1) % self.limit

    def batch(self, n):
        chosen = [self.items[random.randrange(len(self.items))] for _ in range(n)]
        s, a, r, s2, d = zip(*chosen)
        return (
            torch.tensor(s, dtype=torch.float32),
            torch.tensor(a),
            torch.tensor(r, dtype=torch.float32),
            torch.tensor(s2, dtype=torch.float32),
            torch.tensor(d, dtype=torch.float32),
        )


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(H * W, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.adv = nn.Linear(64, ACTIONS)
        self.val = nn.Linear(64, 1)

    def forward(self, x):
        z = self.base(x)
        a = self.adv(z)
        return self.val(z) + a - a.mean(1, keepdim=True)


def run(seed=5, boats=8, iterations=500_000, batch=128, gamma=0.97):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    sea = RadarSea(boats, seed)
    q, q_old = Dueling(), Dueling()
    q_old.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=3e-4, fused=True)
    store = Replay(30_000)
    pic = sea.picture()
    samples, scores = 0, []
    for i in range(iterations):
        eps = max(0.05, 1.0 - i / 10_000)
        with torch.no_grad():
            a = q(torch.from_numpy(pic)).argmax(1).numpy()
        explore = np.random.random(boats) < eps
        a = np.where(explore, np.random.randint(0, ACTIONS, boats), a)
        seen, r, d = sea.step(a)
        for b in range(boats):
            store.add((pic[b], int(a[b]), float(r[b]), seen[b], bool(d[b])))
        pic = sea.picture() if d.any() else seen
        samples += boats
        scores.append(float(r.mean()))
        if i < 40:
            continue
        s, act, rew, s2, done = store.batch(batch)
        with torch.no_grad():
            y = rew + gamma * (1 - done) * q_old(s2).max(1).values
        loss = nn.functional.smooth_l1_loss(q(s).gather(1, act[:, None])[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 500 == 0:
            q_old.load_state_dict(q.state_dict())
        if i % 2000 == 0:
            print(i, samples, f"score {np.mean(scores[-2000:]):.4f} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    run()
