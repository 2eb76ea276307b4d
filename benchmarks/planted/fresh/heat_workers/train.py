import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm import trange

from heat.plate import Plate
from heat.workers import PlateWorkers

CFG = dict(workers=2, per_worker=2, rollout=16, epochs=4, lr=3e-4, gamma=0.97, lam=0.9, clip=0.2, ent=0.005,
           hidden=64, iterations=100_000, seed=0)


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(Plate.obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, Plate.n_actions), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return F.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)


class PPO:
    def __init__(self, cfg):
        self.cfg = cfg
        self.envs = PlateWorkers(cfg["workers"], cfg["per_worker"], cfg["seed"])
        torch.manual_seed(cfg["seed"])
        self.net = Net(cfg["hidden"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.obs = self.envs.reset()

    def rollout(self):
        T, n = self.cfg["rollout"], self.envs.n
        obs, act = np.zeros((T, n, Plate.obs_dim), np.float32), np.zeros((T, n), np.int64)
        lp, val = np.zeros((T, n), np.float32), np.zeros((T + 1, n), np.float32)
        rew, done = np.zeros((T, n), np.float32), np.zeros((T, n), np.float32)
        with torch.inference_mode():
            for t in range(T):
                logp, v = self.net(torch.from_numpy(self.obs))
                a = torch.multinomial(logp.exp(), 1)
                obs[t], act[t], lp[t], val[t] = self.obs, a[:, 0].numpy(), logp.gather(1, a)[:, 0].numpy(), v.numpy()
                self.obs, rew[t], done[t] = self.envs.step(act[t])
            val[T] = self.net(torch.from_numpy(self.obs))[1].numpy()
        adv, g = np.zeros((T, n), np.float32), np.zeros(n, np.float32)
        for t in reversed(range(T)):
            nd = 1 - done[t]
            g = rew[t] + self.cfg["gamma"] * nd * val[t + 1] - val[t] + self.cfg["gamma"] * self.cfg["lam"] * nd * g
            adv[t] = g
        flat = lambda x: torch.from_numpy(x.reshape(T * n, *x.shape[2:]))
        return flat(obs), flat(act), flat(lp), flat(adv), flat(adv + val[:T]), rew.mean()

    def learn(self, obs, act, old, adv, ret):
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(self.cfg["epochs"]):
            logp, v = self.net(obs)
            ratio = (logp.gather(1, act[:, None])[:, 0] - old).exp()
            clip = ratio.clamp(1 - self.cfg["clip"], 1 + self.cfg["clip"])
            loss = -torch.min(ratio * adv, clip * adv).mean() + 0.5 * F.mse_loss(v, ret)
            loss = loss + self.cfg["ent"] * (logp.exp() * logp).sum(-1).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    ppo = PPO(CFG)
    bar = trange(CFG["iterations"], mininterval=2.0)
    t0 = time.time()
    for it in bar:
        *batch, mean_rew = ppo.rollout()
        ppo.learn(*batch)
        if it % 20 == 0:
            n = (it + 1) * CFG["rollout"] * ppo.envs.n
            bar.set_postfix(reward=f"{mean_rew:.3f}", sps=f"{n / (time.time() - t0):.0f}")
