import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


def layer(i, o, gain=2 ** 0.5):
    m = nn.Linear(i, o)
    nn.init.orthogonal_(m.weight, gain)
    nn.init.zeros_(m.bias)
    return m


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, width):
        super().__init__()
        self.body = nn.Sequential(layer(obs_dim, width), nn.Tanh(), layer(width, width), nn.Tanh())
        self.pi = layer(width, n_actions, 0.01)
        self.v = layer(width, 1, 1.0)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)


class Rollout:
    def __init__(self, horizon, n, obs_dim):
        self.obs = np.zeros((horizon, n, obs_dim), np.float32)
        self.act = np.zeros((horizon, n), np.int64)
        self.logp = np.zeros((horizon, n), np.float32)
        self.val = np.zeros((horizon + 1, n), np.float32)
        self.rew = np.zeros((horizon, n), np.float32)
        self.done = np.zeros((horizon, n), np.float32)

    def advantages(self, gamma, lam):
        adv = np.zeros_like(self.rew)
        last = np.zeros_like(self.rew[0])
        for t in reversed(range(len(self.rew))):
            mask = 1.0 - self.done[t]
            delta = self.rew[t] + gamma * self.val[t + 1] * mask - self.val[t]
            last = delta + gamma * lam * mask * last
            adv[t] = last
        return adv, adv + self.val[:-1]


class PPO:
    def __init__(self, obs_dim, n_actions, cfg):
        self.cfg = cfg
        self.net = ActorCritic(obs_dim, n_actions, cfg["width"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"], eps=1e-5, fused=True)

    @torch.no_grad()
    def act(self, obs):
        dist, v = self.net(torch.from_numpy(obs))
        a = dist.sample()
        return a.numpy(), dist.log_prob(a).numpy(), v.numpy()

    def update(self, ro):
        c = self.cfg
        adv, ret = ro.advantages(c["gamma"], c["lam"])
        total = adv.size
        obs = torch.from_numpy(ro.obs.reshape(total, -1))
        act = torch.from_numpy(ro.act.reshape(total))
        logp = torch.from_numpy(ro.logp.reshape(total))
        adv = torch.from_numpy(adv.reshape(total))
        ret = torch.from_numpy(ret.reshape(total))
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(c["epochs"]):
            for idx in torch.randperm(total).split(c["batch_size"]):
                dist, v = self.net(obs[idx])
                ratio = (dist.log_prob(act[idx]) - logp[idx]).exp()
                a = adv[idx]
                clipped = ratio.clamp(1 - c["clip"], 1 + c["clip"])
                pg = -torch.min(ratio * a, clipped * a).mean()
                vf = (v - ret[idx]).pow(2).mean()
                loss = pg + 0.5 * vf - c["entropy"] * dist.entropy().mean()
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()
