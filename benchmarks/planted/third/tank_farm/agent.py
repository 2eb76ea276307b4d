import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class DoubleDQN:
    def __init__(self, obs_dim, n_actions, cfg, device):
        self.cfg, self.device, self.n_actions = cfg, device, n_actions
        self.q = mlp([obs_dim, *cfg["hidden"], n_actions]).to(device)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=cfg["lr"], fused=True)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, eps):
        greedy = self.q(obs).argmax(1)
        random = torch.randint(self.n_actions, greedy.shape, device=self.device)
        return torch.where(torch.rand(len(obs), device=self.device) < eps, random, greedy)

    def remember(self, memory, obs, action, reward, next_obs, terminal):
        for i in range(len(obs)):
            memory.push(
                obs[i].cpu().numpy(),
                action[i].item(),
                reward[i].item(),
                next_obs[i].cpu().numpy(),
                terminal[i].item(),
            )

    def learn(self, batch):
        obs, action, reward, next_obs, terminal = batch
        with torch.no_grad():
            best = self.q(next_obs).argmax(1, keepdim=True)
            boot = self.target(next_obs).gather(1, best).squeeze(1)
            y = reward + self.cfg["gamma"] * (1 - terminal) * boot
        q = self.q(obs).gather(1, action[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg["target_every"] == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.detach()
