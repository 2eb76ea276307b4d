import logging
import os
import time
from collections import deque

import hydra
import numpy as np
import torch
import torch.nn as nn
from omegaconf import DictConfig, OmegaConf

from drone import DroneBatch

log = logging.getLogger("drone")
HERE = os.path.dirname(os.path.abspath(__file__))


class ActorCritic(nn.Module):
    def __init__(self, od, ad, hidden, log_std_init):
        super().__init__()
        def mlp(out, gain):
            layers, d = [], od
            for h in hidden:
                layers += [nn.Linear(d, h), nn.Tanh()]
                d = h
            last = nn.Linear(d, out)
            nn.init.orthogonal_(last.weight, gain)
            return nn.Sequential(*layers, last)
        self.pi = mlp(ad, 0.01)
        self.v = mlp(1, 1.0)
        self.log_std = nn.Parameter(torch.full((ad,), float(log_std_init)))

    def act(self, o):
        mu = self.pi(o)
        a = mu + self.log_std.exp() * torch.randn_like(mu)
        return a, self.logp(mu, a), self.v(o).squeeze(-1)

    def logp(self, mu, a):
        z = (a - mu) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.9189385).sum(-1)


def gae(rew, val, done, last_v, gamma, lam):
    T = rew.shape[0]
    adv = np.zeros_like(rew)
    run = np.zeros(rew.shape[1], np.float32)
    nxt = last_v
    for t in range(T - 1, -1, -1):
        nd = 1.0 - done[t]
        delta = rew[t] + gamma * nxt * nd - val[t]
        run = delta + gamma * lam * nd * run
        adv[t] = run
        nxt = val[t]
    return adv


class Runner:
    """plays the current policy without noise, used for the score in the table"""

    def __init__(self, cfg):
        self.cfg = cfg
        self.env = DroneBatch(1, cfg.env.max_t, cfg.env.wind, cfg.env.dt, seed=cfg.seed + 1000)

    @torch.no_grad()
    def score(self, net):
        out = []
        for _ in range(self.cfg.eval.episodes):
            o = self.env.reset()
            done = False
            while not done:
                x = torch.from_numpy(o)
                if self.cfg.eval.deterministic:
                    a = net.pi(x)
                else:
                    a, _, _ = net.act(x)
                o, r, d, fin = self.env.step(a.numpy())
                done = bool(d[0])
            out.append(fin[0])
        return float(np.mean(out)), float(np.std(out))


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig):
    torch.manual_seed(cfg.seed)
    log.info("\n" + OmegaConf.to_yaml(cfg.ppo))
    N, T = cfg.num_envs, cfg.horizon
    env = DroneBatch(N, cfg.env.max_t, cfg.env.wind, cfg.env.dt, seed=cfg.seed)
    env.reset()
    env.t[:] = np.random.default_rng(0).integers(0, cfg.env.max_t, N)   # desync
    net = ActorCritic(env.obs_dim, env.act_dim, list(cfg.model.hidden), cfg.model.log_std_init)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.ppo.lr, eps=1e-5, fused=True)
    runner = Runner(cfg)
    p = OmegaConf.to_container(cfg.ppo)      # plain dict, omegaconf access is slow

    O = np.zeros((T, N, env.obs_dim), np.float32)
    A = np.zeros((T, N, env.act_dim), np.float32)
    L = np.zeros((T, N), np.float32)
    V = np.zeros((T, N), np.float32)
    R = np.zeros((T, N), np.float32)
    D = np.zeros((T, N), np.float32)

    o = env._obs()
    steps, it = 0, 0
    rets = deque(maxlen=100)
    best, m, s = -1e9, float("nan"), 0.0
    t0 = time.time()
    while steps < cfg.total_steps:
        with torch.inference_mode():
            for t in range(T):
                a, lp, v = net.act(torch.from_numpy(o))
                O[t], A[t], L[t], V[t] = o, a.numpy(), lp.numpy(), v.numpy()
                o, R[t], done, fin = env.step(A[t])
                D[t] = done
                rets.extend(fin)
            last = net.v(torch.from_numpy(o)).squeeze(-1).numpy()
        steps += T * N

        adv = gae(R, V, D, last, p["gamma"], p["lam"])
        b_ret = torch.from_numpy((adv + V).reshape(-1))
        b_adv = torch.from_numpy(adv.reshape(-1))
        b_adv = (b_adv - b_adv.mean()) / (b_adv.std() + 1e-8)
        b_o = torch.from_numpy(O.reshape(T * N, -1))
        b_a = torch.from_numpy(A.reshape(T * N, -1))
        b_l = torch.from_numpy(L.reshape(-1))
        for ep in range(p["epochs"]):
            for idx in torch.randperm(T * N).split(p["minibatch"]):
                oo = b_o[idx]
                lp = net.logp(net.pi(oo), b_a[idx])
                ratio = (lp - b_l[idx]).exp()
                ad = b_adv[idx]
                pl = -torch.min(ratio * ad, ratio.clamp(1 - p["clip"], 1 + p["clip"]) * ad).mean()
                vl = (net.v(oo).squeeze(-1) - b_ret[idx]).pow(2).mean()
                ent = net.log_std.sum()
                loss = pl + p["vf_coef"] * vl - p["ent_coef"] * ent
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), p["max_grad_norm"])
                opt.step()
        it += 1

        if it % cfg.eval.interval == 0:
            m, s = runner.score(net)
            if m > best:
                best = m
        if it % cfg.log_every == 0:
            log.info(f"it {it:5d} steps {steps:9d} train_ret {np.mean(rets) if rets else 0:8.2f} "
                     f"score {m:7.2f}+-{s:5.2f} best {best:7.2f} loss {loss.item():.3f} "
                     f"sps {steps / (time.time() - t0):.0f}")
        if it % cfg.save_every == 0:
            os.makedirs(os.path.join(HERE, "ckpt"), exist_ok=True)
            torch.save(net.state_dict(), os.path.join(HERE, "ckpt", "last.pt"))


if __name__ == "__main__":
    main()
