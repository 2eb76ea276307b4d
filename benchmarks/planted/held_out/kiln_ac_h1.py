"""Actor-critic that keeps a row of kilns at the right temperature; TensorBoard for curves."""
import random
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.tensorboard import SummaryWriter

SEED = 2
KILNS = 32
UNROLL = 32
ITERATIONS = 50_000
GAMMA = 0.95


class KilnRow:
    """Each kiln: temperature, target, load, valve. Action picks valve close / hold / open."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.temp = self.rng.uniform(0.2, 0.6, n)
        self.target = self.rng.uniform(0.3, 0.9, n)
        self.load = self.rng.uniform(0.5, 1.5, n)
        self.valve = np.full(n, 0.5)
        self.t = self.rng.integers(0, 100, n)

    def read(self):
        gap = self.target - self.temp
        return np.stack([self.temp, self.target, self.load, self.valve, gap, np.abs(gap)], 1).astype(np.float32)

    def step(self, a):
        self.valve = np.clip(self.valve + 0.1 * (a - 1), 0, 1)
        heat = 0.12 * self.valve - 0.06 * self.temp
        self.temp = self.temp + heat / self.load + self.rng.normal(0, 0.003, self.n)
        reward = 1.0 - 4.0 * np.abs(self.temp - self.target) - 0.02 * np.abs(a - 1)
        self.t += 1
        done = self.t >= 100
        k = int(done.sum())
        if k:
            self.target[done] = self.rng.uniform(0.3, 0.9, k)
            self.load[done] = self.rng.uniform(0.5, 1.5, k)
            self.t[done] = 0
        return self.read(), reward.astype(np.float32), done.astype(np.float32)


class Controller(nn.Module):
    def __init__(self):
        super().__init__()
        self.torso = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.logits = nn.Linear(64, 3)
        self.baseline = nn.Linear(64, 1)

    def forward(self, x):
        h = self.torso(x)
        return torch.log_softmax(self.logits(h), -1), self.baseline(h).squeeze(-1)


class Monitor:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kilns_")
        self.tb = SummaryWriter(self.folder)

    def record(self, step, reward, temp, gap, entropy, value):
        self.tb.add_scalar("kiln/reward", reward, step)
        self.tb.add_scalar("kiln/temperature", temp, step)
        self.tb.add_scalar("kiln/gap", gap, step)
        self.tb.add_scalar("policy/entropy", entropy, step)
        self.tb.add_scalar("policy/value", value, step)
        self.tb.flush()

    def losses(self, step, loss, pg, vf):
        self.tb.add_scalar("loss/total", loss, step)
        self.tb.add_scalar("loss/policy", pg, step)
        self.tb.add_scalar("loss/value", vf, step)


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    row = KilnRow(KILNS, SEED)
    ctl = Controller()
    opt = torch.optim.Adam(ctl.parameters(), lr=7e-4, fused=True)
    mon = Monitor()
    obs = row.read()
    count, start = 0, time.time()

    for it in range(ITERATIONS):
        xs, acts, rews, ends = [], [], [], []
        with torch.no_grad():
            for u in range(UNROLL):
                x = torch.from_numpy(obs)
                logp, val = ctl(x)
                act = torch.multinomial(logp.exp(), 1).squeeze(1)
                obs, rew, end = row.step(act.numpy())
                xs.append(x)
                acts.append(act)
                rews.append(rew)
                ends.append(end)
                count += KILNS
                ent = -(logp.exp() * logp).sum(-1).mean().item()
                mon.record(count, rew.mean(), row.temp.mean(), obs[:, 5].mean(), ent, val.mean().item())
            boot = ctl(torch.from_numpy(obs))[1].numpy()
        goal = np.zeros((UNROLL, KILNS), np.float32)
        for u in range(UNROLL - 1, -1, -1):
            boot = rews[u] + GAMMA * (1.0 - ends[u]) * boot
            goal[u] = boot
        logp, val = ctl(torch.cat(xs))
        picked = logp.gather(1, torch.cat(acts).unsqueeze(1)).squeeze(1)
        adv = torch.from_numpy(goal.reshape(-1)) - val
        pg = -(picked * adv.detach()).mean()
        vf = adv.pow(2).mean()
        loss = pg + 0.5 * vf + 0.01 * (logp.exp() * logp).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(ctl.parameters(), 1.0)
        opt.step()
        if it % 10 == 0:
            mon.losses(count, loss.item(), pg.item(), vf.item())
        if it % 200 == 0:
            print(f"{it:6d} {count:9d} reward {np.mean(rews):.3f} {time.time() - start:.0f}s", flush=True)


if __name__ == "__main__":
    main()
