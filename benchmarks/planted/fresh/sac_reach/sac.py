import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Actor(nn.Module):
    def __init__(self, s, a, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2 * a))

    def forward(self, s):
        mu, log_std = self.net(s).chunk(2, -1)
        log_std = log_std.clamp(-5, 2)
        eps = torch.randn_like(mu)
        u = mu + eps * log_std.exp()
        logp = (-0.5 * eps.pow(2) - log_std - 0.5 * math.log(2 * math.pi)
                - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1, keepdim=True)
        return torch.tanh(u), logp


class DoubleQ(nn.Module):
    def __init__(self, s, a, h):
        super().__init__()
        make = lambda: nn.Sequential(nn.Linear(s + a, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))
        self.a, self.b = make(), make()

    def forward(self, s, act):
        x = torch.cat([s, act], -1)
        return self.a(x), self.b(x)


class SAC:
    def __init__(self, s_dim, a_dim, hidden=256, lr=3e-4, gamma=0.98, tau=0.005):
        self.gamma, self.tau = gamma, tau
        self.actor = Actor(s_dim, a_dim, hidden)
        self.critic = DoubleQ(s_dim, a_dim, hidden)
        self.critic_t = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.target_entropy = -float(a_dim)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=lr, fused=True)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=lr, fused=True)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], lr=lr, fused=True)
        self._src, self._dst = list(self.critic.parameters()), list(self.critic_t.parameters())

    @torch.inference_mode()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs))[0].numpy()

    def update(self, s, a, r, s2, nd):
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            a2, lp2 = self.actor(s2)
            y = r + self.gamma * nd * (torch.min(*self.critic_t(s2, a2)) - alpha * lp2)
        q1, q2 = self.critic(s, a)
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.opt_critic.zero_grad()
        critic_loss.backward()
        self.opt_critic.step()

        self.critic.requires_grad_(False)
        pi, lp = self.actor(s)
        actor_loss = (alpha * lp - torch.min(*self.critic(s, pi))).mean()
        self.opt_actor.zero_grad()
        actor_loss.backward()
        self.opt_actor.step()
        self.critic.requires_grad_(True)

        alpha_loss = -(self.log_alpha * (lp.detach() + self.target_entropy)).mean()
        self.opt_alpha.zero_grad()
        alpha_loss.backward()
        self.opt_alpha.step()
        with torch.no_grad():
            torch._foreach_lerp_(self._dst, self._src, self.tau)
