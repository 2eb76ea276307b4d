import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from arena import Arena, N_AL

p = argparse.ArgumentParser()
p.add_argument("--arenas", type=int, default=16)
p.add_argument("--horizon", type=int, default=64)
p.add_argument("--epochs", type=int, default=3)
p.add_argument("--mb", type=int, default=256)
p.add_argument("--lr", type=float, default=3e-4)
p.add_argument("--clip", type=float, default=0.2)
p.add_argument("--gamma", type=float, default=0.98)
p.add_argument("--lam", type=float, default=0.95)
p.add_argument("--iters", type=int, default=100000)
p.add_argument("--seed", type=int, default=0)
cfg = p.parse_args()

OBS, ACT = 2 + 2 * N_AL, 4


class Brain(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.head = nn.Linear(h, ACT + 1)

    def forward(self, x):
        y = self.head(self.net(x))
        return y[:, :ACT], y[:, ACT]


class Rollout:
    def __init__(self, T, N):
        self.o = np.zeros((T, N, OBS), np.float32)
        self.a = np.zeros((T, N), np.int64)
        self.lp = np.zeros((T, N), np.float32)
        self.v = np.zeros((T + 1, N), np.float32)
        self.r = np.zeros((T, N), np.float32)
        self.d = np.zeros((T, N), np.float32)

    def returns(self, gamma, lam):
        adv = np.zeros_like(self.r)
        run = np.zeros(self.r.shape[1], np.float32)
        for t in reversed(range(len(self.r))):
            live = 1 - self.d[t]
            delta = self.r[t] + gamma * self.v[t + 1] * live - self.v[t]
            run = delta + gamma * lam * live * run
            adv[t] = run
        return adv, adv + self.v[:-1]


def main():
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.set_num_threads(1)
    arenas = [Arena(cfg.seed * 1000 + i) for i in range(cfg.arenas)]
    brain = Brain()
    opt = torch.optim.Adam(brain.parameters(), lr=cfg.lr, eps=1e-5, fused=True)
    T, N = cfg.horizon, cfg.arenas
    buf = Rollout(T, N)
    obs = np.stack([a.look() for a in arenas])
    score = np.zeros(N)
    fin, kills = [], []
    ticks = 0
    t0 = time.time()

    for it in range(1, cfg.iters + 1):
        for t in range(T):
            with torch.inference_mode():
                logits, v = brain(torch.from_numpy(obs))
                lp = F.log_softmax(logits, -1)
                act = (lp + torch.empty_like(lp).exponential_().log_().neg_()).argmax(-1)
                buf.lp[t] = lp.gather(1, act[:, None]).squeeze(1).numpy()
            buf.o[t], buf.v[t] = obs, v.numpy()
            buf.a[t] = act.numpy()
            obs = np.empty_like(obs)
            for i, (ar, a) in enumerate(zip(arenas, act.tolist())):
                pts, over = ar.tick(a)
                buf.r[t, i] = pts
                buf.d[t, i] = over
                score[i] += pts
                if over:
                    fin.append(score[i])
                    kills.append(ar.kills)
                    score[i] = 0
                    ar.restart()
                obs[i] = ar.look()
        with torch.inference_mode():
            buf.v[T] = brain(torch.from_numpy(obs))[1].numpy()
        ticks += T * N

        adv, ret = buf.returns(cfg.gamma, cfg.lam)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        O = torch.from_numpy(buf.o.reshape(-1, OBS))
        A, LP, AD, RT = (torch.from_numpy(np.ascontiguousarray(x.reshape(-1))) for x in (buf.a, buf.lp, adv, ret))
        for _ in range(cfg.epochs):
            for ix in torch.randperm(T * N).split(cfg.mb):
                lg, v = brain(O[ix])
                l = F.log_softmax(lg, -1)
                ratio = (l.gather(1, A[ix][:, None]).squeeze(1) - LP[ix]).exp()
                ad = AD[ix]
                pl = -torch.min(ratio * ad, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * ad).mean()
                loss = pl + 0.5 * F.mse_loss(v, RT[ix]) + 0.01 * (l.exp() * l).sum(-1).mean()
                opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(brain.parameters(), 0.5)
                opt.step()

        if it % 5 == 0:
            print(f"iter {it} ticks {ticks} score {np.mean(fin[-50:] or [0]):.2f} kills {np.mean(kills[-50:] or [0]):.1f} "
                  f"avg {ticks / (time.time() - t0):.0f}/s", flush=True)
            fin, kills = fin[-50:], kills[-50:]


if __name__ == "__main__":
    main()
