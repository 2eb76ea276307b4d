import numpy as np
import torch
from torch import nn
from torch.distributions import Normal


class Swarm(nn.Module):
    def __init__(self, obs_dim, act_dim, width):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                   nn.Linear(width, act_dim))
        self.critic = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                    nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def dist(self, obs):
        return Normal(self.actor(obs), self.log_std.exp(), validate_args=False)

    @torch.no_grad()
    def step(self, obs):
        """obs: [agents, obs_dim]"""
        obs = torch.from_numpy(obs)
        dist = self.dist(obs)
        action = dist.sample()
        return action.numpy(), dist.log_prob(action).sum(-1).numpy(), self.critic(obs).squeeze(-1).numpy()


class PPO:
    def __init__(self, net, cfg):
        self.net, self.cfg = net, cfg
        self.opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"], fused=True)

    def gae(self, rew, val, last, end):
        adv, run, nxt = np.zeros_like(rew), np.zeros_like(last), last
        for t in range(len(rew) - 1, -1, -1):
            keep = 1.0 - end[t]
            run = rew[t] + self.cfg["gamma"] * keep * nxt - val[t] + self.cfg["gamma"] * self.cfg["lam"] * keep * run
            adv[t], nxt = run, val[t]
        return adv

    def update(self, obs, act, logp, adv, ret):
        obs, act, logp, adv, ret = (torch.from_numpy(x).flatten(0, 1) for x in (obs, act, logp, adv, ret))
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        c = self.cfg["clip"]
        for _ in range(self.cfg["epochs"]):
            for i in torch.randperm(len(obs)).split(self.cfg["minibatch"]):
                dist = self.net.dist(obs[i])
                ratio = (dist.log_prob(act[i]).sum(-1) - logp[i]).exp()
                pg = -torch.min(ratio * adv[i], ratio.clamp(1 - c, 1 + c) * adv[i]).mean()
                vf = (self.net.critic(obs[i]).squeeze(-1) - ret[i]).pow(2).mean()
                loss = pg + 0.5 * vf - self.cfg["entropy"] * dist.entropy().sum(-1).mean()
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()
        return loss.item()
