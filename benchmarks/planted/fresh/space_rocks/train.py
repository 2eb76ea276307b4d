"""A2C on SpaceRocks, sixteen copies of the game stepped in turn"""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from rocks_env import SpaceRocks

torch.set_num_threads(1)

N_ENVS = 16
N_STEPS = 16
GAMMA = 0.98
UPDATES = 1_000_000


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1 = nn.Linear(SpaceRocks.obs_dim, 128)
        self.f2 = nn.Linear(128, 128)
        self.pi = nn.Linear(128, SpaceRocks.n_actions)
        self.v = nn.Linear(128, 1)

    def forward(self, x):
        x = F.relu(self.f2(F.relu(self.f1(x))))
        return self.pi(x), self.v(x).squeeze(-1)


def main():
    torch.manual_seed(0)
    envs = [SpaceRocks(seed=i) for i in range(N_ENVS)]
    net = ActorCritic()
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, eps=1e-5)
    obs = np.stack([e.reset() for e in envs])
    running, finished = np.zeros(N_ENVS), []
    t0 = time.time()
    for update in range(1, UPDATES + 1):
        mem_o, mem_a, mem_r, mem_d = [], [], [], []
        for _ in range(N_STEPS):
            with torch.no_grad():
                logits, _ = net(torch.from_numpy(obs))
                acts = torch.multinomial(logits.softmax(-1), 1).squeeze(1).numpy()
            nxt, rew, done = np.empty_like(obs), np.zeros(N_ENVS, np.float32), np.zeros(N_ENVS, np.float32)
            for i, env in enumerate(envs):
                o, r, d, _ = env.step(int(acts[i]))
                running[i] += r
                if d:
                    finished.append(running[i])
                    running[i] = 0.0
                    o = env.reset()
                nxt[i], rew[i], done[i] = o, r, d
            mem_o.append(obs)
            mem_a.append(acts)
            mem_r.append(rew)
            mem_d.append(done)
            obs = nxt
        with torch.no_grad():
            g = net(torch.from_numpy(obs))[1].numpy()
        rets = np.zeros((N_STEPS, N_ENVS), np.float32)
        for t in reversed(range(N_STEPS)):
            g = mem_r[t] + GAMMA * (1 - mem_d[t]) * g
            rets[t] = g
        logits, v = net(torch.from_numpy(np.concatenate(mem_o)))
        lp = F.log_softmax(logits, -1)
        ret = torch.from_numpy(rets.reshape(-1))
        a = torch.from_numpy(np.concatenate(mem_a))
        adv = ret - v.detach()
        loss = (-(lp.gather(1, a[:, None])[:, 0] * adv).mean() + 0.5 * F.mse_loss(v, ret)
                + 0.01 * (lp.exp() * lp).sum(-1).mean())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if update % 100 == 0:
            n = update * N_STEPS * N_ENVS
            print(f"{n:>9} frames  score {np.mean(finished[-200:]):6.2f}  {n / (time.time() - t0):7.0f} fps", flush=True)


if __name__ == "__main__":
    main()
