import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from cards import N_ACTIONS
from encode import OBS


class QNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.l1 = nn.Linear(OBS, width)
        self.l2 = nn.Linear(width, width)
        self.out = nn.Linear(width, N_ACTIONS)

    def forward(self, x):
        return self.out(F.relu(self.l2(F.relu(self.l1(x)))))


class Buffer:
    def __init__(self, size, seed):
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.s = np.zeros((size, OBS), np.float32)
        self.s2 = np.zeros((size, OBS), np.float32)
        self.legal2 = np.zeros((size, N_ACTIONS), bool)
        self.a = np.zeros(size, np.int64)
        self.r = np.zeros(size, np.float32)
        self.d = np.zeros(size, bool)
        self.n = 0

    def add(self, s, a, r, s2, legal2, d):
        i = self.n % self.size
        self.s[i], self.a[i], self.r[i], self.s2[i], self.legal2[i], self.d[i] = s, a, r, s2, legal2, d
        self.n += 1

    def batch(self, k):
        i = self.rng.integers(0, min(self.n, self.size), k)
        return [torch.from_numpy(x[i]) for x in (self.s, self.a, self.r, self.s2, self.legal2, self.d)]


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = QNet(cfg["width"])
        self.target = copy.deepcopy(self.net)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.updates = 0

    @torch.no_grad()
    def best_move(self, obs, moves):
        q = self.net(torch.from_numpy(obs)).numpy()
        return moves[int(q[moves].argmax())]

    def update(self, buffer):
        s, a, r, s2, legal2, d = buffer.batch(self.cfg["batch"])
        with torch.no_grad():
            q_next = self.net(s2)
            q_next_target = self.target(s2)
            targets = []
            for i in range(len(a)):
                if d[i]:
                    targets.append(r[i])
                    continue
                moves = torch.nonzero(legal2[i]).flatten()
                best = moves[q_next[i, moves].argmax()]
                targets.append(r[i] + self.cfg["gamma"] * q_next_target[i, best])
            y = torch.stack(targets)
        q = self.net(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg["sync"] == 0:
            self.target.load_state_dict(self.net.state_dict())
