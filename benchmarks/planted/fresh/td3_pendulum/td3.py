import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, o, h, last=None):
    layers = [nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o)]
    return nn.Sequential(*layers, *([last] if last else []))


class Critic(nn.Module):
    def __init__(self, s, a, h):
        super().__init__()
        self.q1, self.q2 = mlp(s + a, 1, h), mlp(s + a, 1, h)

    def forward(self, s, a):
        x = torch.cat([s, a], 1)
        return self.q1(x), self.q2(x)


class TD3:
    def __init__(self, s_dim, a_dim, a_max, cfg):
        self.cfg, self.a_max = cfg, a_max
        self.actor = mlp(s_dim, a_dim, cfg["hidden"], nn.Tanh())
        self.critic = Critic(s_dim, a_dim, cfg["hidden"])
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=cfg["lr"])
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=cfg["lr"])
        self.it = 0

    @torch.no_grad()
    def act(self, s):
        return self.actor(torch.as_tensor(s, dtype=torch.float32)).numpy() * self.a_max

    def train(self, replay):
        c = self.cfg
        self.it += 1
        s, a, r, s2, nd = replay.sample(c["batch_size"])
        with torch.no_grad():
            noise = (torch.randn_like(a) * c["target_noise"]).clamp(-c["noise_clip"], c["noise_clip"])
            a2 = (self.actor_t(s2) + noise).clamp(-1, 1)
            q1, q2 = self.critic_t(s2, a2)
            y = r + c["gamma"] * nd * torch.min(q1, q2)
        q1, q2 = self.critic(s, a)
        loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        if self.it % c["policy_delay"] == 0:
            la = -self.critic.q1(torch.cat([s, self.actor(s)], 1)).mean()
            self.opt_a.zero_grad()
            la.backward()
            self.opt_a.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
                    torch._foreach_lerp_(list(tgt.parameters()), list(net.parameters()), c["tau"])
