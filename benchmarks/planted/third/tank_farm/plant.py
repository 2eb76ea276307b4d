"""Coupled water tanks, simulated for many farms at once with torch tensors."""
import itertools

import torch


class TankFarm:
    """Four tanks in a row; two pumps with three speeds each; demand drifts. Keep the levels at their set points."""

    def __init__(self, n, device="cpu", seed=0, episode=200):
        self.n, self.device, self.episode = n, torch.device(device), episode
        self.gen = torch.Generator(device=device).manual_seed(seed)
        self.commands = torch.tensor(list(itertools.product([0.0, 0.5, 1.0], repeat=2)), device=device)
        self.n_actions = len(self.commands)
        self.obs_dim = 4 + 4 + 2
        self.inflow = torch.tensor([[1.0, 0.0], [0.3, 0.2], [0.2, 0.3], [0.0, 1.0]], device=device).T.contiguous()
        self.level = torch.zeros(n, 4, device=device)
        self.target = torch.zeros(n, 4, device=device)
        self.demand = torch.zeros(n, 2, device=device)
        self.t = torch.zeros(n, dtype=torch.long, device=device)
        self.rand = lambda *s: torch.rand(*s, generator=self.gen, device=device)

    def reset(self):
        self.level = 0.2 + 0.6 * self.rand(self.n, 4)
        self.target = 0.3 + 0.4 * self.rand(self.n, 4)
        self.demand = self.rand(self.n, 2)
        self.t = (self.rand(self.n) * self.episode).long()
        return self.observe()

    def observe(self):
        return torch.cat([self.level - 0.5, self.target - self.level, self.demand - 0.5], 1)

    def step(self, action):
        flow = self.commands[action] @ self.inflow
        out = 0.35 * self.level.clamp(min=0).sqrt()
        out[:, 1:3] += 0.3 * self.demand
        self.level = (self.level + 0.1 * (flow - out)).clamp_(0.0, 1.2)
        self.demand = (self.demand + 0.1 * (self.rand(self.n, 2) - 0.5)).clamp_(0, 1)
        self.t += 1
        err = (self.level - self.target).abs().sum(1)
        spill = (self.level >= 1.2).any(1)
        reward = -err - 5.0 * spill
        done = spill | (self.t >= self.episode)
        final_obs = self.observe()
        fresh = done[:, None]
        self.level = torch.where(fresh, 0.2 + 0.6 * self.rand(self.n, 4), self.level)
        self.target = torch.where(fresh, 0.3 + 0.4 * self.rand(self.n, 4), self.target)
        self.t.masked_fill_(done, 0)
        return self.observe(), reward, spill, done, final_obs
