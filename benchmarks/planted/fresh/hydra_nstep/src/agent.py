import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from .replay import NStepReplay


class Dueling(nn.Module):
    def __init__(self, n_in, hidden, n_actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.adv, self.val = nn.Linear(hidden, n_actions), nn.Linear(hidden, 1)

    def forward(self, x):
        z = self.body(x.float())
        a = self.adv(z)
        return self.val(z) + a - a.mean(-1, keepdim=True)


class NStepDQN:
    def __init__(self, obs_shape, n_actions, cfg):
        self.cfg, self.n_actions = cfg, n_actions
        self.net = Dueling(obs_shape[0], cfg.hidden, n_actions)
        self.target = Dueling(obs_shape[0], cfg.hidden, n_actions)
        self.target.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)
        self.memory = NStepReplay(cfg.capacity, obs_shape, cfg.n_step, cfg.gamma)
        self.steps = self.updates = 0

    @property
    def eps(self):
        c = self.cfg
        return max(c.eps_end, c.eps_start - (c.eps_start - c.eps_end) * self.steps / c.eps_decay)

    def act(self, obs):
        if np.random.rand() < self.eps:
            return np.random.randint(self.n_actions)
        with torch.no_grad():
            return int(self.net(torch.from_numpy(obs)).argmax())

    def observe(self, *transition):
        self.memory.add(*transition)
        self.steps += 1
        c = self.cfg
        if len(self.memory) >= c.learn_start and self.steps % c.learn_every == 0:
            self.learn()

    def learn(self):
        o, a, r, o2, g = map(torch.from_numpy, self.memory.sample(self.cfg.batch_size))
        with torch.no_grad():
            best = self.net(o2).argmax(1, keepdim=True)
            y = r + g * self.target(o2).gather(1, best).squeeze(1)
        q = self.net(o).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg.target_every == 0:
            self.target.load_state_dict(self.net.state_dict())

    def save(self, path):
        state = {
            "net": self.net.state_dict(),
            "target": self.target.state_dict(),
            "opt": self.opt.state_dict(),
            "memory": self.memory,
            "steps": self.steps,
            "updates": self.updates,
        }
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)

    def load(self, path):
        state = torch.load(path, weights_only=False)
        self.net.load_state_dict(state["net"])
        self.target.load_state_dict(state["target"])
        self.opt.load_state_dict(state["opt"])
        if "memory" in state:
            self.memory = state["memory"]
        self.steps, self.updates = state["steps"], state["updates"]
