import csv
import os
import sys
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tank

P = {
    "envs": 4,
    "T": 32,
    "gamma": 0.99,
    "lam": 0.95,
    "lr": 7e-4,
    "ent": 1e-3,
    "vf": 0.5,
    "clipnorm": 0.5,
    "hid": 128,
    "seed": 21,
}


class Net(nn.Module):
    def __init__(self, n_in, n_act):
        super().__init__()
        h = P["hid"]
        self.f = nn.Sequential(nn.Linear(n_in, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.mu = nn.Linear(h, n_act)
        self.v = nn.Linear(h, 1)
        self.ls = nn.Parameter(torch.full((n_act,), -0.7))

    def forward(self, x):
        z = self.f(x)
        return Normal(self.mu(z), self.ls.exp(), validate_args=False), self.v(z).squeeze(-1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(P["seed"])
    tank.warm()  # compile before the workers are forked
    N, T = P["envs"], P["T"]
    envs = gym.vector.AsyncVectorEnv([tank.Tank for _ in range(N)], shared_memory=True, copy=False)
    d, na = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    net = Net(d, na)
    opt = torch.optim.RMSprop(net.parameters(), lr=P["lr"], eps=1e-5, alpha=0.99)
    O = np.zeros((T + 1, N, d), np.float32)
    A = torch.zeros(T, N, na)
    R = np.zeros((T, N), np.float32)
    D = np.zeros((T, N), np.float32)
    o, _ = envs.reset(seed=P["seed"])
    O[0] = o
    ep, eps = np.zeros(N), []
    os.makedirs(os.path.join(HERE, "log"), exist_ok=True)
    fh = open(os.path.join(HERE, "log", "progress.csv"), "w", newline="")
    w = csv.writer(fh)
    w.writerow(["step", "ret", "loss"])
    steps, t0, tl, sl = 0, time.time(), time.time(), 0
    for it in range(1, 10**7):
        for t in range(T):
            with torch.no_grad():
                dist, _ = net(torch.from_numpy(O[t]))
                A[t] = dist.sample()
            o, r, term, trunc, _ = envs.step(A[t].numpy())
            O[t + 1] = o
            R[t] = r
            dn = term | trunc
            D[t] = dn
            ep += r
            if dn.any():
                eps.extend(ep[dn].tolist())
                ep[dn] = 0
            steps += N
        x = torch.from_numpy(O)
        dist, v = net(x[:-1])
        with torch.no_grad():
            vl = net(x[-1])[1].numpy()
        vn = v.detach().numpy()
        adv = np.zeros((T, N), np.float32)
        g = np.zeros(N, np.float32)
        for t in range(T - 1, -1, -1):
            nv = vl if t == T - 1 else vn[t + 1]
            g = R[t] + P["gamma"] * nv * (1 - D[t]) - vn[t] + P["gamma"] * P["lam"] * (1 - D[t]) * g
            adv[t] = g
        adv = torch.from_numpy(adv)
        ret = adv + v.detach()
        lp = dist.log_prob(A).sum(-1)
        an = (adv - adv.mean()) / (adv.std() + 1e-6)
        loss = -(lp * an).mean() + P["vf"] * (v - ret).pow(2).mean() - P["ent"] * dist.entropy().sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), P["clipnorm"])
        opt.step()
        O[0] = O[T]
        if time.time() - tl > 2:
            now = time.time()
            m = float(np.mean(eps[-20:])) if eps else float("nan")
            print(f"it {it} steps {steps} sps {(steps - sl) / (now - tl):.0f} ret {m:.3f} loss {loss.item():.3f}", flush=True)
            w.writerow([steps, m, loss.item()])
            tl, sl = now, steps
        if it % 2000 == 0:
            fh.flush()
            torch.save(net.state_dict(), os.path.join(HERE, "log", "net.pt"))


if __name__ == "__main__":
    main()
