import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn

from config import PPOConfig, WorldConfig
from policy import ActorCritic
from world import RoverWorlds


class Rollout:
    def __init__(self, T, n, obs_dim):
        self.obs = np.zeros((T, n, obs_dim), np.float32)
        self.act = np.zeros((T, n), np.int64)
        self.logp = np.zeros((T, n), np.float32)
        self.val = np.zeros((T + 1, n), np.float32)
        self.rew = np.zeros((T, n), np.float32)
        self.done = np.zeros((T, n), np.float32)

    def advantages(self, gamma, lam):
        adv = np.zeros_like(self.rew)
        last = 0.0
        for t in reversed(range(len(self.rew))):
            live = 1.0 - self.done[t]
            delta = self.rew[t] + gamma * self.val[t + 1] * live - self.val[t]
            adv[t] = last = delta + gamma * lam * live * last
        return adv, adv + self.val[:-1]


class PPO:
    def __init__(self, cfg: PPOConfig, worlds: RoverWorlds):
        self.cfg, self.worlds = cfg, worlds
        self.net = ActorCritic(worlds.obs_dim, worlds.n_actions, cfg.hidden)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr, eps=1e-5, fused=True)
        self.roll = Rollout(cfg.horizon, worlds.n, worlds.obs_dim)
        self.obs = worlds.reset()
        self.returns = deque(maxlen=100)

    def collect(self):
        r = self.roll
        for t in range(self.cfg.horizon):
            a, lp, v = self.net.act(torch.from_numpy(self.obs))
            r.obs[t], r.act[t], r.logp[t], r.val[t] = self.obs, a.numpy(), lp.numpy(), v.numpy()
            self.obs, r.rew[t], r.done[t], finished = self.worlds.step(r.act[t])
            self.returns.extend(finished)
        with torch.no_grad():
            r.val[-1] = self.net(torch.from_numpy(self.obs))[1].numpy()

    def update(self):
        c, r = self.cfg, self.roll
        adv, ret = r.advantages(c.gamma, c.lam)
        obs = torch.from_numpy(r.obs).flatten(0, 1)
        act = torch.from_numpy(r.act).flatten()
        old = torch.from_numpy(r.logp).flatten()
        adv, ret = torch.from_numpy(adv).flatten(), torch.from_numpy(ret).flatten()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(c.epochs):
            for mb in torch.randperm(len(act)).split(c.minibatch):
                logp, v = self.net(obs[mb])
                ratio = (logp.gather(1, act[mb, None]).squeeze(1) - old[mb]).exp()
                a = adv[mb]
                pg = -torch.min(ratio * a, ratio.clamp(1 - c.clip, 1 + c.clip) * a).mean()
                ent = -(logp.exp() * logp).sum(-1).mean()
                loss = pg + c.vf_coef * 0.5 * (v - ret[mb]).pow(2).mean() - c.ent_coef * ent
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()


def main():
    cfg, wcfg = PPOConfig(), WorldConfig()
    torch.manual_seed(cfg.seed)
    algo = PPO(cfg, RoverWorlds(wcfg, cfg.seed))
    t0 = time.time()
    for it in range(1, cfg.iterations + 1):
        algo.collect()
        algo.update()
        if it % 20 == 0:
            steps = it * cfg.horizon * wcfg.n_worlds
            mean = np.mean(algo.returns) if algo.returns else float("nan")
            print(f"iter {it:5d}  steps {steps:9d}  return {mean:7.2f}  fps {steps / (time.time() - t0):8.0f}", flush=True)


if __name__ == "__main__":
    main()
