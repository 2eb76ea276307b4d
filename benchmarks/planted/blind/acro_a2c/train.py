"""A2C on Acrobot. grew out of the a2c exercise, vectorised with gymnasium now."""
import argparse
import os
import time
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.tensorboard import SummaryWriter

ap = argparse.ArgumentParser()
ap.add_argument("--env", default="Acrobot-v1")
ap.add_argument("--num-envs", type=int, default=8)
ap.add_argument("--nsteps", type=int, default=8)
ap.add_argument("--lr", type=float, default=7e-4)
ap.add_argument("--gamma", type=float, default=0.99)
ap.add_argument("--lam", type=float, default=0.95)
ap.add_argument("--ent", type=float, default=0.01)
ap.add_argument("--vf", type=float, default=0.5)
ap.add_argument("--clip", type=float, default=0.5)
ap.add_argument("--updates", type=int, default=500_000)
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--name", default="a2c")
args = ap.parse_args()


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_act, h=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.pi = nn.Linear(h, n_act)
        self.v = nn.Linear(h, 1)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, 2 ** 0.5)
                nn.init.zeros_(m.bias)
        nn.init.orthogonal_(self.pi.weight, 0.01)

    def forward(self, x):
        z = self.trunk(x)
        return self.pi(z), self.v(z).squeeze(-1)


class Board:
    """thin wrapper so that I can swap the backend later"""

    def __init__(self, folder):
        self.w = SummaryWriter(folder, flush_secs=30)

    def scalars(self, tag, d, k):
        for key, val in d.items():
            self.w.add_scalar(f"{tag}/{key}", val, k)

    def network(self, net, k):
        for name, p in net.named_parameters():
            self.w.add_histogram("weights/" + name, p.detach(), k)
            if p.grad is not None:
                self.w.add_histogram("grads/" + name, p.grad, k)


def gae(rew, val, done, last, gamma, lam):
    T = len(rew)
    adv = np.zeros_like(rew)
    g = np.zeros_like(last)
    for t in range(T - 1, -1, -1):
        nv = last if t == T - 1 else val[t + 1]
        nt = 1.0 - done[t]
        g = rew[t] + gamma * nv * nt - val[t] + gamma * lam * nt * g
        adv[t] = g
    return adv, adv + val


def main():
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    board = Board(os.path.join(here, "runs", f"{args.name}_{int(time.time())}"))

    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env) for _ in range(args.num_envs)])
    obs_dim = envs.single_observation_space.shape[0]
    n_act = int(envs.single_action_space.n)
    net = ActorCritic(obs_dim, n_act)
    opt = torch.optim.RMSprop(net.parameters(), lr=args.lr, alpha=0.99, eps=1e-5, foreach=True)

    T, N = args.nsteps, args.num_envs
    O = np.zeros((T, N, obs_dim), np.float32)
    A = np.zeros((T, N), np.int64)
    R = np.zeros((T, N), np.float32)
    V = np.zeros((T, N), np.float32)
    D = np.zeros((T, N), np.float32)

    obs, _ = envs.reset(seed=args.seed)
    ep_ret = np.zeros(N)
    hist = deque(maxlen=100)
    frames, t0, f0 = 0, time.time(), 0

    for k in range(1, args.updates + 1):
        for t in range(T):
            with torch.inference_mode():
                logits, v = net(torch.from_numpy(obs))
                # gumbel trick
                a = (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)
            O[t], A[t], V[t] = obs, a.numpy(), v.numpy()
            obs, r, term, trunc, _ = envs.step(A[t])
            R[t], D[t] = r, np.logical_or(term, trunc)
            ep_ret += r
            if D[t].any():
                for i in np.nonzero(D[t])[0]:
                    hist.append(ep_ret[i])
                    ep_ret[i] = 0
        frames += T * N
        with torch.inference_mode():
            last = net(torch.from_numpy(obs))[1].numpy()
        adv, target = gae(R, V, D, last, args.gamma, args.lam)

        logits, v = net(torch.from_numpy(O.reshape(T * N, -1)))
        logp = F.log_softmax(logits, -1)
        lp = logp.gather(1, torch.from_numpy(A.reshape(-1, 1))).squeeze(1)
        adv_t = torch.from_numpy(adv.reshape(-1))
        pg = -(lp * (adv_t - adv_t.mean()) / (adv_t.std() + 1e-6)).mean()
        ent = -(logp.exp() * logp).sum(-1).mean()
        vl = F.mse_loss(v, torch.from_numpy(target.reshape(-1)))
        loss = pg + args.vf * vl - args.ent * ent
        opt.zero_grad(set_to_none=True)
        loss.backward()
        gn = nn.utils.clip_grad_norm_(net.parameters(), args.clip)
        opt.step()

        board.scalars("loss", {"pg": pg.item(), "v": vl.item(), "ent": ent.item(), "total": loss.item()}, frames)
        board.scalars("train", {"gradnorm": gn.item(), "adv_std": adv.std(), "lr": opt.param_groups[0]["lr"],
                                "return": np.mean(hist) if hist else 0.0}, frames)
        board.network(net, frames)

        if k % 50 == 0:
            now = time.time()
            print(f"upd {k} frames {frames} ret {np.mean(hist) if hist else 0:.1f} ent {ent.item():.3f} "
                  f"fps {(frames - f0) / (now - t0):.0f}", flush=True)
            t0, f0 = now, frames
        if k % 5000 == 0:
            torch.save(net.state_dict(), os.path.join(here, "runs", "last.pt"))


if __name__ == "__main__":
    main()
