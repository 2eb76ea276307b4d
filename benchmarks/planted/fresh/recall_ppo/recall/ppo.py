from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F


@dataclass
class Episode:
    obs: torch.Tensor
    actions: torch.Tensor
    logp: torch.Tensor
    adv: torch.Tensor
    ret: torch.Tensor
    reward: float
    hit: float


class Trainer:
    def __init__(self, env, model, cfg):
        self.env, self.model, self.cfg = env, model, cfg
        self.opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"], eps=1e-5)

    @torch.no_grad()
    def collect(self):
        env, T = self.env, self.env.length
        obs_b = np.zeros((env.n, T, env.obs_dim), np.float32)
        act_b = np.zeros((env.n, T), np.int64)
        rew_b, val_b, logp_b = (np.zeros((env.n, T), np.float32) for _ in range(3))
        obs, state = env.reset(), self.model.initial_state(env.n)
        for t in range(T):
            logits, value, state = self.model.step(torch.from_numpy(obs), state)
            logp = F.log_softmax(logits, -1)
            a = torch.multinomial(logp.exp(), 1)
            obs_b[:, t], act_b[:, t] = obs, a[:, 0].numpy()
            val_b[:, t], logp_b[:, t] = value.numpy(), logp.gather(1, a)[:, 0].numpy()
            obs, rew_b[:, t], done, _ = env.step(act_b[:, t])
        adv, last = np.zeros_like(rew_b), 0.0
        g, l = self.cfg["gamma"], self.cfg["lam"]
        for t in reversed(range(T)):
            nxt = val_b[:, t + 1] if t + 1 < T else 0.0
            last = rew_b[:, t] + g * nxt - val_b[:, t] + g * l * last
            adv[:, t] = last
        hit = float((act_b[:, -1] == env.cue).mean())
        ret = adv + val_b
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        f = torch.from_numpy
        return Episode(f(obs_b), f(act_b), f(logp_b), f(adv), f(ret), float(rew_b.sum(1).mean()), hit)

    def update(self, ep):
        c = self.cfg
        n = ep.obs.shape[0]
        for _ in range(c["epochs"]):
            for idx in torch.randperm(n).split(c["minibatch_envs"]):
                state = self.model.initial_state(len(idx))
                logits, value = self.model.unroll(ep.obs[idx], state)
                logp_all = F.log_softmax(logits, -1)
                logp = logp_all.gather(-1, ep.actions[idx].unsqueeze(-1)).squeeze(-1)
                ratio = (logp - ep.logp[idx]).exp()
                adv = ep.adv[idx]
                pg = -torch.min(ratio * adv, ratio.clamp(1 - c["clip"], 1 + c["clip"]) * adv).mean()
                vf = F.mse_loss(value, ep.ret[idx])
                ent = -(logp_all.exp() * logp_all).sum(-1).mean()
                loss = pg + c["vf_coef"] * vf - c["ent_coef"] * ent
                self.opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), c["max_grad_norm"])
                self.opt.step()
        return loss.item()
