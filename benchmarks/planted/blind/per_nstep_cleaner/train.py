"""vacuum cleaner grid, prioritised n-step double DQN. settings in config.yaml"""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import yaml

from replay import NStepPER

HERE = os.path.dirname(os.path.abspath(__file__))
DXY = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


class Rooms:
    """n rooms at once; dirt appears at random, battery forces the robot back to the dock at (0,0)"""

    def __init__(self, n, size, horizon, slip, rng):
        self.n, self.k, self.h, self.slip, self.rng = n, size, horizon, slip, rng
        self.dirt = np.zeros((n, size, size), np.float32)
        self.p = np.zeros((n, 2), np.int64)
        self.bat = np.ones(n, np.float32)
        self.t = rng.integers(0, horizon, n)
        self.ar = np.arange(n)
        self.dim = size * size + 2 * size + 2
        self.eye = np.eye(size, dtype=np.float32)
        self._new(np.ones(n, bool))
        self.t = rng.integers(0, horizon, n)

    def _new(self, m):
        self.dirt[m] = self.rng.random((int(m.sum()), self.k, self.k)) < 0.2
        self.p[m] = 0
        self.bat[m] = 1
        self.t[m] = 0

    def obs(self):
        return np.concatenate([self.dirt.reshape(self.n, -1), self.eye[self.p[:, 0]], self.eye[self.p[:, 1]],
                               self.bat[:, None], (self.t / self.h)[:, None].astype(np.float32)], 1)

    def step(self, a):
        a = np.where(self.rng.random(self.n) < self.slip, self.rng.integers(0, 4, self.n), a)
        self.p = np.clip(self.p + DXY[a], 0, self.k - 1)
        x, y = self.p.T
        got = self.dirt[self.ar, x, y].copy()
        self.dirt[self.ar, x, y] = 0
        self.bat -= 0.02
        dock = (x == 0) & (y == 0)
        self.bat[dock] = 1
        self.t += 1
        empty = self.bat <= 0
        r = got - 0.01 - 2.0 * empty
        done = empty | (self.t >= self.h)
        nxt = self.obs()
        if done.any():
            self._new(done)
        return nxt, r.astype(np.float32), done.astype(np.float32), self.obs() if done.any() else nxt


def build(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class CleanerAgent:
    def __init__(self, cfg, dim, n_env, rng):
        self.c, self.rng = cfg, rng
        self.online = build(dim, cfg["hidden"], 4)
        self.target = build(dim, cfg["hidden"], 4)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=cfg["lr"], fused=True)
        self.mem = NStepPER(cfg["capacity"], dim, n_env, cfg["n_step"], cfg["gamma"], cfg["alpha"])
        self.n_upd = 0

    def act(self, obs, step):
        e0, e1, dur = self.c["eps"]
        eps = max(e1, e0 - (e0 - e1) * step / dur)
        with torch.no_grad():
            a = self.online(torch.from_numpy(obs)).argmax(1).numpy()
        rnd = self.rng.random(len(a)) < eps
        return np.where(rnd, self.rng.integers(0, 4, len(a)), a)

    def learn(self, frac):
        b0, b1 = self.c["beta"]
        ix, w, batch = self.mem.sample(self.c["batch"], b0 + (b1 - b0) * frac, self.rng)
        o, a, r, o2, g = map(torch.from_numpy, batch)
        with torch.no_grad():
            tq = self.target(o2)
            pick = self.online(o2).argmax(1, keepdim=True) if self.c["double"] else tq.argmax(1, keepdim=True)
            y = r + g * tq.gather(1, pick).squeeze(1)
        td = self.online(o).gather(1, a.unsqueeze(1)).squeeze(1) - y
        loss = (torch.from_numpy(w) * nn.functional.huber_loss(td, torch.zeros_like(td), reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.mem.refresh(ix, td.detach().numpy())
        self.n_upd += 1
        if self.n_upd % self.c["target_tau_every"] == 0:
            self.target.load_state_dict(self.online.state_dict())
        return loss.detach()


def run():
    with open(os.path.join(HERE, "config.yaml")) as f:
        cfg = yaml.safe_load(f)
    rc = cfg["run"]
    rng = np.random.default_rng(rc["seed"])
    torch.manual_seed(rc["seed"])
    env = Rooms(**cfg["env"], rng=rng)
    ag = CleanerAgent(cfg["agent"], env.dim, env.n, rng)
    obs, step, t0, loss = env.obs(), 0, time.time(), torch.zeros(())
    acc = np.zeros(env.n)
    scores = []
    while step < rc["steps"]:
        a = ag.act(obs, step)
        nxt, r, d, cont = env.step(a)
        ag.mem.add(obs, a, r, nxt, d)
        acc += r
        if d.any():
            scores += acc[d > 0].tolist()
            acc[d > 0] = 0
        obs = cont
        step += env.n
        if step > rc["start"]:
            loss = ag.learn(min(1.0, step / rc["steps"]))
        if step % rc["print"] == 0:
            print(f"{step:9d}  score {np.mean(scores[-100:]) if scores else 0:7.3f}  loss {loss.item():.5f}  "
                  f"updates {ag.n_upd}  {step / (time.time() - t0):.0f} steps/s", flush=True)
            del scores[:-100]


if __name__ == "__main__":
    run()
