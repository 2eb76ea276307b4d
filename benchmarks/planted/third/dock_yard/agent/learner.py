import copy

import torch
import torch.nn.functional as F
from torch import nn


class Learner:
    """Double DQN."""

    def __init__(self, obs_size, n_actions, settings):
        width = settings["width"]
        self.net = nn.Sequential(nn.Linear(obs_size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_actions))
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=settings["lr"], fused=True)
        self.gamma, self.sync_every = settings["gamma"], settings["sync_every"]
        self.n = 0

    def learn(self, batch):
        obs, next_obs, action, reward, over = batch
        with torch.no_grad():
            best = self.net(next_obs).argmax(1, keepdim=True)
            target = reward + self.gamma * (1.0 - over) * self.target(next_obs).gather(1, best).squeeze(1)
        q = self.net(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.n += 1
        if self.n % self.sync_every == 0:
            self.target.load_state_dict(self.net.state_dict())
        return loss.item()
