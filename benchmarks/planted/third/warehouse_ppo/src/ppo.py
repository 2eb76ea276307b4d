import numpy as np
import torch
from torch import nn


class Storage:
    def __init__(self, horizon, n, obs_dim, items):
        self.obs = torch.zeros(horizon, n, obs_dim)
        self.act = torch.zeros(horizon, n, items, dtype=torch.long)
        self.logp = torch.zeros(horizon, n)
        self.val = torch.zeros(horizon, n)
        self.rew = np.zeros((horizon, n), np.float32)
        self.done = np.zeros((horizon, n), np.float32)

    def targets(self, last, gamma, lam):
        val = self.val.numpy()
        adv = np.zeros_like(self.rew)
        acc, nxt = np.zeros_like(last), last
        for t in range(len(adv) - 1, -1, -1):
            live = 1 - self.done[t]
            acc = self.rew[t] + gamma * live * nxt - val[t] + gamma * lam * live * acc
            adv[t], nxt = acc, val[t]
        return torch.from_numpy(adv).flatten(), torch.from_numpy(adv + val).flatten()


class PPO:
    def __init__(self, env, policy, cfg):
        self.env, self.policy, self.cfg = env, policy, cfg
        self.opt = torch.optim.Adam(policy.parameters(), lr=float(cfg["lr"]), fused=True)
        self.store = Storage(cfg["horizon"], env.n, env.obs_dim, env.n_items)
        self.obs = env.reset()
        self.totals = []

    def collect(self):
        s = self.store
        for t in range(self.cfg["horizon"]):
            s.obs[t] = torch.from_numpy(self.obs)
            s.act[t], s.logp[t], s.val[t] = self.policy.sample(s.obs[t])
            self.obs, s.rew[t], s.done[t], totals = self.env.step(s.act[t].numpy())
            self.totals.extend(totals)
        with torch.no_grad():
            return self.policy(torch.from_numpy(self.obs))[1].numpy()

    def minibatches(self, total):
        order = torch.randperm(total)
        return order.split(self.cfg["batch_size"])

    def update(self, last):
        c, s = self.cfg, self.store
        adv, ret = s.targets(last, c["gamma"], c["gae_lambda"])
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        obs, act, old = s.obs.flatten(0, 1), s.act.flatten(0, 1), s.logp.flatten()
        for _ in range(c["epochs"]):
            for mb in self.minibatches(len(adv)):
                loss = self.loss(obs[mb], act[mb], old[mb], adv[mb], ret[mb])
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                self.opt.step()
        return loss.item()

    def loss(self, obs, act, old, adv, ret):
        c = self.cfg
        logp, value = self.policy(obs)
        ratio = (self.policy.joint(logp, act) - old).exp()
        clipped = ratio.clamp(1 - c["clip_range"], 1 + c["clip_range"])
        policy_loss = -torch.min(ratio * adv, clipped * adv).mean()
        value_loss = (value - ret).pow(2).mean()
        entropy = -(logp.exp() * logp).sum(-1).sum(-1).mean()
        return policy_loss + c["vf_coef"] * value_loss - c["ent_coef"] * entropy
