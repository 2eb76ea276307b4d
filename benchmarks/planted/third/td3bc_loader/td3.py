import copy

import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self, obs, act, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, act), nn.Tanh())

    def forward(self, obs):
        return self.net(obs)


class Critic(nn.Module):
    def __init__(self, obs, act, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs + act, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x)


class TD3BC:
    def __init__(self, obs, act, width, cfg):
        self.cfg = cfg
        self.actor = Actor(obs, act, width)
        self.q1, self.q2 = Critic(obs, act, width), Critic(obs, act, width)
        self.actor_t, self.q1_t, self.q2_t = (copy.deepcopy(m).requires_grad_(False) for m in (self.actor, self.q1, self.q2))
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=cfg["lr"], fused=True)
        self.q_params = [*self.q1.parameters(), *self.q2.parameters()]
        self.q_opt = torch.optim.Adam(self.q_params, lr=cfg["lr"], fused=True)
        self.live = [*self.actor.parameters(), *self.q_params]
        self.slow = [*self.actor_t.parameters(), *self.q1_t.parameters(), *self.q2_t.parameters()]
        self.updates = 0

    @torch.inference_mode()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs)).numpy()

    def update(self, batch, bc):
        cfg = self.cfg
        obs, action, reward, next_obs = batch
        with torch.no_grad():
            noise = (cfg["policy_noise"] * torch.randn_like(action)).clamp_(-cfg["noise_clip"], cfg["noise_clip"])
            next_in = torch.cat([next_obs, (self.actor_t(next_obs) + noise).clamp_(-1, 1)], 1)
            target = reward + cfg["gamma"] * torch.min(self.q1_t(next_in), self.q2_t(next_in))
        x = torch.cat([obs, action], 1)
        q_loss = (self.q1(x) - target).pow(2).mean() + (self.q2(x) - target).pow(2).mean()
        self.q_opt.zero_grad(set_to_none=True)
        q_loss.backward()
        self.q_opt.step()
        self.updates += 1
        if self.updates % cfg["delay"] == 0:
            for p in self.q1.parameters():
                p.requires_grad_(False)
            pi = self.actor(obs)
            q = self.q1(torch.cat([obs, pi], 1))
            loss = -q.mean() / q.detach().abs().mean() * cfg["bc"] if bc else -q.mean()
            if bc:
                loss = loss + (pi - action).pow(2).mean()
            self.actor_opt.zero_grad(set_to_none=True)
            loss.backward()
            self.actor_opt.step()
            for p in self.q1.parameters():
                p.requires_grad_(True)
            with torch.no_grad():
                torch._foreach_lerp_(self.slow, self.live, cfg["tau"])
        return q_loss.detach()
