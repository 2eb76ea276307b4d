"""Prioritised double DQN for ferries crossing a river with a changing current."""
import math
import random

import numpy as np
import torch
import torch.nn as nn


class River:
    """A batch of crossings. The ferry starts on the west bank and docks at a pier on the east bank."""

    def __init__(self, ferries, seed):
        self.n = ferries
        self.rng = np.random.default_rng(seed)
        self.s = np.zeros((ferries, 6), np.float32)
        self._launch(np.ones(ferries, bool))

    def _launch(self, mask):
        k = int(mask.sum())
        fresh = np.zeros((k, 6), np.float32)
        fresh[:, 1] = self.rng.uniform(-0.5, 0.5, k)
        fresh[:, 3] = self.rng.uniform(-0.6, 0.6, k)
        fresh[:, 4] = self.rng.uniform(-0.3, 0.3, k)
        self.s[mask] = fresh

    def observe(self):
        return self.s.copy()

    def step(self, action):
        s = self.s
        s[:, 2] = np.clip(s[:, 2] + 0.2 * (action - 1), -1.2, 1.2)
        s[:, 0] += 0.04 * np.cos(s[:, 2])
        s[:, 1] += 0.04 * np.sin(s[:, 2]) + 0.04 * s[:, 4] * np.sin(math.pi * s[:, 0])
        s[:, 4] += 0.02 * self.rng.standard_normal(self.n).astype(np.float32)
        s[:, 5] += 0.02
        docked = s[:, 0] >= 1.0
        lost = (np.abs(s[:, 1]) > 1.2) | (s[:, 5] >= 1.0)
        reward = np.where(docked, 1.0 - 2.0 * np.abs(s[:, 1] - s[:, 3]), -0.01) - 1.0 * (lost & ~docked)
        done = docked | lost
        arrived = s.copy()
        if done.any():
            self._launch(done)
        return arrived, reward.astype(np.float32), done


class SumTree:
    def __init__(self, size):
        self.size = size
        self.nodes = [0.0] * (2 * size)

    def total(self):
        return self.nodes[1]

    def set(self, index, value):
        node = index + self.size
        change = value - self.nodes[node]
        while node >= 1:
            self.nodes[node] += change
            node //= 2

    def find(self, mass):
        node = 1
        while node < self.size:
            left = 2 * node
            if mass <= self.nodes[left]:
                node = left
            else:
                mass -= self.nodes[left]
                node = left + 1
        return node - self.size, self.nodes[node]


class PrioritisedReplay:
    def __init__(self, size, alpha=0.6):
        self.size, self.alpha = size, alpha
        self.tree = SumTree(size)
        self.obs = np.zeros((size, 6), np.float32)
        self.nxt = np.zeros((size, 6), np.float32)
        self.act = np.zeros(size, np.int64)
        self.rew = np.zeros(size, np.float32)
        self.end = np.zeros(size, np.float32)
        self.at, self.full, self.peak = 0, 0, 1.0

    def add(self, obs, act, rew, nxt, end):
        where = (self.at + np.arange(len(act))) % self.size
        self.obs[where], self.nxt[where] = obs, nxt
        self.act[where], self.rew[where], self.end[where] = act, rew, end
        for i in where.tolist():
            self.tree.set(i, self.peak)
        self.at = (self.at + len(act)) % self.size
        self.full = min(self.full + len(act), self.size)

    def sample(self, k, beta):
        part = self.tree.total() / k
        found = [self.tree.find(part * (j + random.random())) for j in range(k)]
        where = np.minimum(np.array([f[0] for f in found]), self.full - 1)
        share = np.maximum(np.array([f[1] for f in found]), 1e-8) / self.tree.total()
        weight = (self.full * share) ** -beta
        return where, (weight / weight.max()).astype(np.float32)

    def revise(self, where, errors):
        fresh = (np.abs(errors) + 1e-3) ** self.alpha
        self.peak = max(self.peak, float(fresh.max()))
        for i, p in zip(where.tolist(), fresh.tolist()):
            self.tree.set(i, p)


def net():
    return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


def main(seed=13, ferries=32, batch=512, gamma=0.98, ticks=3_000_000):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    river = River(ferries, seed)
    replay = PrioritisedReplay(2 ** 16)
    online, target = net(), net()
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=5e-4)
    obs, steps, reward_sum = river.observe(), 0, 0.0
    for tick in range(1, ticks):
        with torch.no_grad():
            action = online(torch.from_numpy(obs)).argmax(1).numpy()
        wild = np.random.random(ferries) < max(0.05, 1 - tick / 4000)
        action = np.where(wild, np.random.randint(0, 3, ferries), action)
        nxt, reward, end = river.step(action)
        replay.add(obs, action, reward, nxt, end)
        obs = river.observe()
        steps += ferries
        reward_sum += float(reward.mean())
        if tick >= 32:
            where, weight = replay.sample(batch, min(1.0, 0.4 + tick / 50_000))
            b_nxt = torch.from_numpy(replay.nxt[where])
            with torch.no_grad():
                best = online(b_nxt).argmax(1, keepdim=True)
                boot = target(b_nxt).gather(1, best).squeeze(1)
                goal = torch.from_numpy(replay.rew[where]) + gamma * torch.from_numpy(1 - replay.end[where]) * boot
            q = online(torch.from_numpy(replay.obs[where])).gather(1, torch.from_numpy(replay.act[where, None])).squeeze(1)
            error = q - goal
            loss = (torch.from_numpy(weight) * error.pow(2)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            replay.revise(where, error.detach().numpy())
            if tick % 300 == 0:
                target.load_state_dict(online.state_dict())
        if tick % 1000 == 0:
            print(f"tick {tick} steps {steps} reward {reward_sum / 1000:.4f}", flush=True)
            reward_sum = 0.0


if __name__ == "__main__":
    main()
