import json
import os
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from depot.simulator import DepotSim
from depot.vec import PipeVec

cfg = {
    "n_envs": 4,
    "n_steps": 16,
    "gamma": 0.98,
    "lr": 7e-4,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "updates": 200_000,
    "seed": 21,
    "trace_dir": "traces",
}


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(DepotSim.obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, DepotSim.n_actions), nn.Linear(64, 1)

    def forward(self, x):
        z = self.body(x)
        return self.pi(z), self.v(z).squeeze(-1)


class A2C:
    def __init__(self, vec):
        self.vec, self.net = vec, ActorCritic()
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=cfg["lr"], eps=1e-5)
        self.obs = vec.reset()
        self.returns = deque(maxlen=20)
        self.best = -1e9

    def rollout(self):
        O, A, R, D = [], [], [], []
        for _ in range(cfg["n_steps"]):
            with torch.no_grad():
                logits, _ = self.net(torch.from_numpy(self.obs))
                a = torch.multinomial(logits.softmax(-1), 1)[:, 0].numpy()
            O.append(self.obs)
            self.obs, r, d, infos = self.vec.step(a)
            A.append(a); R.append(r); D.append(d)
            for k, info in enumerate(infos):
                if d[k]:
                    self.returns.append(info["return"])
                    self.dump(info)
        return np.stack(O), np.stack(A), np.stack(R), np.stack(D)

    def dump(self, info):
        """keep the path of the best episode for the viewer"""
        if info["return"] > self.best:
            self.best = info["return"]
            os.makedirs(cfg["trace_dir"], exist_ok=True)
            with open(os.path.join(cfg["trace_dir"], "best.json"), "w") as f:
                json.dump([[float(v) for v in row["pose"]] for row in info["trace"]], f)

    def update(self, O, A, R, D):
        with torch.no_grad():
            ret = self.net(torch.from_numpy(self.obs))[1].numpy()
        targets = np.zeros_like(R)
        for t in reversed(range(len(R))):
            ret = R[t] + cfg["gamma"] * (1 - D[t]) * ret
            targets[t] = ret
        O, A, Y = torch.from_numpy(O), torch.from_numpy(A), torch.from_numpy(targets)
        logits, v = self.net(O)
        logp = F.log_softmax(logits, -1)
        adv = (Y - v).detach()
        pg = -(logp.gather(-1, A.unsqueeze(-1)).squeeze(-1) * adv).mean()
        ent = -(logp.exp() * logp).sum(-1).mean()
        loss = pg + cfg["vf_coef"] * F.mse_loss(v, Y) - cfg["ent_coef"] * ent
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    vec = PipeVec(cfg["n_envs"], cfg["seed"])
    algo = A2C(vec)
    t0 = time.time()
    for u in range(1, cfg["updates"] + 1):
        loss = algo.update(*algo.rollout())
        if u % 5 == 0:
            steps = u * cfg["n_envs"] * cfg["n_steps"]
            mean = np.mean(algo.returns) if algo.returns else float("nan")
            print(f"update {u} steps {steps} return {mean:.2f} loss {loss:.3f} fps {steps / (time.time() - t0):.0f}", flush=True)
    vec.close()
