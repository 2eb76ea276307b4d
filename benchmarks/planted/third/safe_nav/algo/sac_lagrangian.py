import copy

import torch
import torch.nn.functional as F

from .dual import DualVariable
from .networks import Actor, Critic


class SACLagrangian:
    """Soft actor-critic with a cost critic and a Lagrange multiplier (Ha et al., 2020)."""

    def __init__(self, obs_dim, act_dim, hidden=64, lr=3e-4, gamma=0.98, tau=0.005, cost_limit=0.5, alpha=0.02):
        self.gamma, self.tau, self.alpha = gamma, tau, alpha
        self.actor = Actor(obs_dim, act_dim, hidden)
        self.critic = Critic(obs_dim, act_dim, hidden)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.dual = DualVariable(cost_limit)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr, fused=True)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=lr, fused=True)
        self.online_params = list(self.critic.parameters())
        self.target_params = list(self.target.parameters())

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs))[0].numpy()

    def train_on(self, batch):
        obs, act, nxt, reward, cost = batch
        with torch.no_grad():
            a2, logp2 = self.actor(nxt)
            t1, t2, tc = self.target(nxt, a2)
            y = reward + self.gamma * (torch.min(t1, t2) - self.alpha * logp2)
            yc = cost + self.gamma * tc
        q1, q2, qc = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y) + F.mse_loss(qc, yc)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        for p in self.online_params:
            p.requires_grad_(False)
        new, logp = self.actor(obs)
        p1, p2, pc = self.critic(obs, new)
        actor_loss = (self.alpha * logp - torch.min(p1, p2) + self.dual.weight * pc).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        for p in self.online_params:
            p.requires_grad_(True)

        self.dual.ascend(pc.detach().mean())
        with torch.no_grad():
            torch._foreach_lerp_(self.target_params, self.online_params, self.tau)
        return critic_loss.detach(), actor_loss.detach()
