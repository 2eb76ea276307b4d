import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Dueling(nn.Module):
    def __init__(self, i, n, h):
        super().__init__()
        self.b1, self.b2 = nn.Linear(i, h), nn.Linear(h, h)
        self.head = nn.Linear(h, n + 1)     # advantages + value

    def forward(self, x):
        y = self.head(F.relu(self.b2(F.relu(self.b1(x)))))
        adv, v = y[:, :-1], y[:, -1:]
        return v + adv - adv.mean(1, keepdim=True)


class Agent:
    def __init__(self, dim, n, c):
        self.q = Dueling(dim, n, c["hidden"])
        self.t = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=c["lr"], fused=True)
        self.gamma, self.every, self.k = c["gamma"], c["target_every"], 0

    @torch.inference_mode()
    def best(self, o):
        return self.q(torch.from_numpy(o)).argmax(1).numpy()

    def learn(self, o, a, r, o2, w):
        with torch.no_grad():
            n = self.q(o2).argmax(1, keepdim=True)
            y = r + self.gamma * (1 - w) * self.t(o2).gather(1, n).squeeze(1)
        loss = F.smooth_l1_loss(self.q(o).gather(1, a[:, None]).squeeze(1), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.k += 1
        if self.k % self.every == 0:
            self.t.load_state_dict(self.q.state_dict())
        return loss.detach()
