from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from .memory import PrioritizedMemory


class Dueling(nn.Module):
    def __init__(self, obs_size, n_actions, hidden):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Agent:
    def __init__(self, obs_size, n_actions, cfg, mem_cfg, seed):
        self.cfg = cfg
        self.mem_cfg = mem_cfg
        self.n_actions = n_actions
        self.rng = np.random.default_rng(seed)
        self.online = Dueling(obs_size, n_actions, cfg.hidden)
        self.target = Dueling(obs_size, n_actions, cfg.hidden)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=cfg.lr)
        self.memory = PrioritizedMemory(mem_cfg.capacity, obs_size, mem_cfg.alpha, seed)
        self.pending = deque()
        self.batch_size = cfg.batch_size
        self.gamma = cfg.gamma
        self.n_step = cfg.n_step

    def act(self, obs, step):
        eps = max(0.02, 1.0 - step / self.cfg.eps_decay)
        if self.rng.random() < eps:
            return int(self.rng.integers(self.n_actions))
        with torch.no_grad():
            return int(self.online(torch.from_numpy(obs)[None]).argmax(1))

    def remember(self, obs, action, reward, next_obs, done):
        self.pending.append((obs, action, reward))
        if len(self.pending) == self.n_step or done:
            while self.pending:
                g = 0.0
                for k, (_, _, r) in enumerate(self.pending):
                    g += self.gamma ** k * r
                o, a, _ = self.pending[0]
                disc = 0.0 if done else self.gamma ** len(self.pending)
                self.memory.push(o, a, g, next_obs, disc)
                self.pending.popleft()
                if not done:
                    break

    def learn(self, step):
        beta = min(1.0, self.mem_cfg.beta0 + (1 - self.mem_cfg.beta0) * step / self.mem_cfg.beta_steps)
        idxs, w, batch = self.memory.sample(self.batch_size, beta)
        s, a, r, s2, disc = (torch.from_numpy(x) for x in batch)
        with torch.no_grad():
            best = self.online(s2).argmax(1, keepdim=True)
            target = r + disc * self.target(s2).gather(1, best).squeeze(1)
        q = self.online(s).gather(1, a[:, None]).squeeze(1)
        loss = (torch.from_numpy(w) * F.smooth_l1_loss(q, target, reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.memory.update_priorities(idxs, (q.detach() - target).numpy())
        return loss

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())
