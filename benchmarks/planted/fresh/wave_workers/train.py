# REINFORCE with a baseline and bootstrapped tails on the wave tank
import time

import numpy as np
import torch
from torch import nn

from pool import TankPool
from tank import WaveTank

WORKERS, PER_WORKER, HORIZON = 2, 2, 10
GAMMA, LR, ENTROPY, EPOCHS = 0.95, 1e-3, 0.01, 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(WaveTank.obs_size, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.head = nn.Linear(64, WaveTank.action_size + 1)

    def forward(self, x):
        h = self.head(self.f(x))
        return h[..., :-1], h[..., -1]


def rollout(pool, net, obs):
    mem = {k: [] for k in ("obs", "act", "rew", "done")}
    for _ in range(HORIZON):
        with torch.no_grad():
            logits, _ = net(torch.from_numpy(obs))
            act = torch.multinomial(torch.softmax(logits, -1), 1)[:, 0].numpy()
        mem["obs"].append(obs)
        mem["act"].append(act)
        obs, rew, done = pool.step(act)
        mem["rew"].append(rew)
        mem["done"].append(done)
    return {k: np.stack(v) for k, v in mem.items()}, obs


def improve(net, opt, mem, obs):
    with torch.no_grad():
        run = net(torch.from_numpy(obs))[1].numpy()
    ret = np.empty_like(mem["rew"])
    for t in range(HORIZON - 1, -1, -1):
        run = mem["rew"][t] + GAMMA * (1 - mem["done"][t]) * run
        ret[t] = run
    logits, v = net(torch.from_numpy(mem["obs"]))
    logp = torch.log_softmax(logits, -1)
    chosen = logp.gather(-1, torch.from_numpy(mem["act"]).unsqueeze(-1)).squeeze(-1)
    adv = torch.from_numpy(ret) - v
    loss = -(chosen * adv.detach()).mean() + 0.5 * adv.pow(2).mean() + ENTROPY * (logp.exp() * logp).sum(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(4)
    pool = TankPool(WORKERS, PER_WORKER, seed=40)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    obs, steps, t0 = pool.first, 0, time.time()
    for it in range(1, 100_001):
        mem, obs = rollout(pool, net, obs)
        loss = improve(net, opt, mem, obs)
        steps += mem["rew"].size
        if it % 4 == 0:
            print(f"iter {it} steps {steps} reward {mem['rew'].mean():.4f} loss {loss:.4f} fps {steps / (time.time() - t0):.1f}", flush=True)
    pool.close()
