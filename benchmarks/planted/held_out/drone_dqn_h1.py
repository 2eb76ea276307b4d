"""Double DQN on a fleet of landing drones simulated as one torch batch."""
import random
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FLEET = 96
FEATURES = 6
THRUSTS = 5
CAPACITY = 120_000
BATCH = 256
TICKS = 400_000


class Landing:
    """State per drone: x, y, vx, vy, wind, fuel. All drones advance together."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.s = self._spawn()
        self.left = torch.full((n,), 150)
        self.push = torch.tensor([[0.0, 0.0], [0.0, 0.06], [0.0, 0.12], [-0.05, 0.04], [0.05, 0.04]])

    def _spawn(self):
        u = torch.rand(self.n, FEATURES, generator=self.gen)
        low = torch.tensor([-1.0, 1.0, -0.1, -0.1, -0.02, 0.8])
        high = torch.tensor([1.0, 2.0, 0.1, 0.0, 0.02, 1.0])
        return low + (high - low) * u

    def step(self, action):
        old = self.s
        acc = self.push[action] * (old[:, 5:6] > 0)
        vel = (old[:, 2:4] + acc) * 0.98
        vel[:, 0] += old[:, 4]
        vel[:, 1] -= 0.05
        pos = old[:, 0:2] + 0.1 * vel
        fuel = (old[:, 5:6] - 0.05 * acc.abs().sum(1, keepdim=True)).clamp(min=0)
        new = torch.cat([pos, vel, old[:, 4:5], fuel], 1)
        self.left -= 1
        ground = pos[:, 1] <= 0
        soft = ground & (vel.abs().amax(1) < 0.35) & (pos[:, 0].abs() < 0.5)
        out = pos[:, 0].abs() > 3
        done = ground | out | (self.left <= 0)
        reward = -0.02 * pos.abs().sum(1) - 0.01 * vel.abs().sum(1) + 3.0 * soft - 1.0 * (done & ~soft)
        self.s = torch.where(done.unsqueeze(1), self._spawn(), new)
        self.left = torch.where(done, torch.full_like(self.left, 150), self.left)
        return new, reward, done


class Memory:
    def __init__(self, cap):
        self.cap = cap
        self.s = np.zeros((cap, FEATURES), np.float32)
        self.s2 = np.zeros((cap, FEATURES), np.float32)
        self.a = np.zeros(cap, np.int64)
        self.r = np.zeros(cap, np.float32)
        self.d = np.zeros(cap, np.float32)
        self.head, self.size = 0, 0

    def store(self, s, a, r, s2, d):
        for k in range(s.shape[0]):
            j = self.head
            self.s[j] = s[k].cpu().numpy()
            self.s2[j] = s2[k].cpu().numpy()
            self.a[j] = a[k].item()
            self.r[j] = r[k].item()
            self.d[j] = float(d[k].item())
            self.head = (self.head + 1) % self.cap
            self.size = min(self.size + 1, self.cap)

    def sample(self, n):
        j = np.random.randint(0, self.size, n)
        return tuple(torch.from_numpy(x[j]) for x in (self.s, self.a, self.r, self.s2, self.d))


def network():
    return nn.Sequential(nn.Linear(FEATURES, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, THRUSTS))


def learn(online, frozen, opt, batch):
    s, a, r, s2, d = batch
    with torch.no_grad():
        best = online(s2).argmax(1, keepdim=True)
        goal = r + 0.98 * (1 - d) * frozen(s2).gather(1, best).squeeze(1)
    q = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(q, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def main(seed=31):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    fleet = Landing(FLEET, torch.Generator().manual_seed(seed))
    online, frozen = network(), network()
    frozen.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=5e-4, fused=True)
    memory = Memory(CAPACITY)
    flown, t0 = 0, time.time()
    income = 0.0

    for tick in range(TICKS):
        eps = max(0.05, 1.0 - tick / 4000)
        state = fleet.s
        with torch.no_grad():
            act = online(state).argmax(1)
            roll = torch.rand(FLEET) < eps
            act = torch.where(roll, torch.randint(0, THRUSTS, (FLEET,)), act)
        after, reward, done = fleet.step(act)
        memory.store(state, act, reward, after, done)
        flown += FLEET
        if tick >= 20 and tick % 2 == 0:
            loss = learn(online, frozen, opt, memory.sample(BATCH))
        if tick % 400 == 0:
            frozen.load_state_dict(online.state_dict())
        if tick % 2000 == 1999:
            income = reward.mean().item()
            print(f"tick {tick} flown {flown} reward {income:.3f} loss {loss.item():.4f} {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
