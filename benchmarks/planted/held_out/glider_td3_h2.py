"""TD3-style control of gliders that circle inside a thermal."""
import copy
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn

CONFIG = {
    "seed": 6, "gliders": 32, "capacity": 40_000, "warmup": 2_000, "batch": 256, "gamma": 0.98, "tau": 0.01,
    "noise": 0.15, "lr": 1e-3, "policy_delay": 2, "train_every": 2, "save_every": 50, "iterations": 1_500_000,
}


class Thermal:
    def __init__(self, count, seed):
        self.count = count
        self.rng = np.random.default_rng(seed)
        self.pos = np.zeros((count, 2))
        self.head = np.zeros(count)
        self.bank = np.zeros(count)
        self.age = np.zeros(count, np.int64)
        self.restart(np.ones(count, bool))

    def restart(self, mask):
        k = int(mask.sum())
        self.pos[mask] = self.rng.uniform(-1.5, 1.5, (k, 2))
        self.head[mask] = self.rng.uniform(-np.pi, np.pi, k)
        self.bank[mask] = 0
        self.age[mask] = 0

    def obs(self):
        return np.stack([self.pos[:, 0], self.pos[:, 1], np.sin(self.head), np.cos(self.head), self.bank],
                        1).astype(np.float32)

    def step(self, roll):
        self.bank = np.clip(self.bank + 0.3 * roll[:, 0], -1, 1)
        self.head = self.head + 0.25 * self.bank
        self.pos = self.pos + 0.1 * np.stack([np.cos(self.head), np.sin(self.head)], 1)
        self.age += 1
        r2 = (self.pos ** 2).sum(1)
        lift = 1.5 * np.exp(-r2) - 0.3 - 0.1 * self.bank ** 2
        away = r2 > 9
        reward = (lift - 2.0 * away).astype(np.float32)
        after = self.obs()
        over = away | (self.age >= 150)
        if over.any():
            self.restart(over)
        return after, reward, away, self.obs()


class Store:
    FIELDS = ("s", "a", "r", "s2", "d")

    def __init__(self, capacity):
        self.capacity = capacity
        self.s = np.zeros((capacity, 5), np.float32)
        self.a = np.zeros((capacity, 1), np.float32)
        self.r = np.zeros(capacity, np.float32)
        self.s2 = np.zeros((capacity, 5), np.float32)
        self.d = np.zeros(capacity, np.float32)
        self.i, self.n = 0, 0

    def put(self, s, a, r, s2, d):
        at = (self.i + np.arange(len(r))) % self.capacity
        self.s[at], self.a[at], self.r[at], self.s2[at], self.d[at] = s, a, r, s2, d
        self.i = (self.i + len(r)) % self.capacity
        self.n = min(self.n + len(r), self.capacity)

    def get(self, k):
        at = np.random.randint(0, self.n, k)
        return [torch.from_numpy(getattr(self, f)[at]) for f in self.FIELDS]

    def state(self):
        return {f: getattr(self, f)[:self.n] for f in self.FIELDS}


def mlp(n_in, n_out, last=None):
    parts = [nn.Linear(n_in, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, n_out)]
    return nn.Sequential(*parts, *([last] if last else []))


class Agent:
    def __init__(self, c):
        self.c = c
        self.pi = mlp(5, 1, nn.Tanh())
        self.q1, self.q2 = mlp(6, 1), mlp(6, 1)
        self.live = nn.ModuleList([self.pi, self.q1, self.q2])
        self.slow = copy.deepcopy(self.live)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=c["lr"])
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=c["lr"])
        self.updates = 0

    def train(self, store):
        s, a, r, s2, d = store.get(self.c["batch"])
        pi_t, q1_t, q2_t = self.slow
        with torch.no_grad():
            jitter = (0.2 * torch.randn_like(a)).clamp_(-0.4, 0.4)
            x2 = torch.cat([s2, (pi_t(s2) + jitter).clamp_(-1, 1)], 1)
            goal = r + self.c["gamma"] * (1 - d) * torch.min(q1_t(x2), q2_t(x2)).squeeze(1)
        x = torch.cat([s, a], 1)
        q_loss = (self.q1(x).squeeze(1) - goal).pow(2).mean() + (self.q2(x).squeeze(1) - goal).pow(2).mean()
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()
        self.updates += 1
        if self.updates % self.c["policy_delay"] == 0:
            pi_loss = -self.q1(torch.cat([s, self.pi(s)], 1)).mean()
            self.pi_opt.zero_grad()
            pi_loss.backward()
            self.pi_opt.step()
            with torch.no_grad():
                torch._foreach_lerp_(list(self.slow.parameters()), list(self.live.parameters()), self.c["tau"])

    def save(self, folder, store):
        torch.save({"nets": self.live.state_dict(), "pi_opt": self.pi_opt.state_dict(),
                    "q_opt": self.q_opt.state_dict(), "updates": self.updates}, os.path.join(folder, "agent.pt"))
        np.savez_compressed(os.path.join(folder, "store.npz"), **store.state())


def main():
    c = CONFIG
    random.seed(c["seed"])
    np.random.seed(c["seed"])
    torch.manual_seed(c["seed"])
    torch.set_num_threads(1)
    air = Thermal(c["gliders"], c["seed"])
    store, agent = Store(c["capacity"]), Agent(c)
    obs, flown, lift = air.obs(), 0, 0.0
    with tempfile.TemporaryDirectory(prefix="glider_") as folder:
        for it in range(1, c["iterations"] + 1):
            with torch.no_grad():
                roll = agent.pi(torch.from_numpy(obs)).numpy()
            roll = np.clip(roll + c["noise"] * np.random.randn(*roll.shape), -1, 1).astype(np.float32)
            after, reward, crashed, following = air.step(roll)
            store.put(obs, roll, reward, after, crashed)
            obs = following
            flown += c["gliders"]
            lift += float(reward.mean())
            if store.n >= c["warmup"] and it % c["train_every"] == 0:
                agent.train(store)
            if it % c["save_every"] == 0:
                agent.save(folder, store)
            if it % 2000 == 0:
                print(f"iteration {it} steps {flown} lift {lift / 2000:.3f}", flush=True)
                lift = 0.0


if __name__ == "__main__":
    main()
