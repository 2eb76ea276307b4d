import copy
import random

import torch
import torch.nn as nn

from .boards import SIDE


class Player(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        n = SIDE * SIDE
        self.body = nn.Sequential(nn.Linear(2 * n, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.pi, self.v = nn.Linear(width, n), nn.Linear(width, 1)

    def forward(self, x, free):
        z = self.body(x)
        return self.pi(z).masked_fill(~free, -1e9), self.v(z).squeeze(-1)

    @torch.inference_mode()
    def move(self, planes, free):
        logits, v = self(torch.from_numpy(planes), torch.from_numpy(free))
        logp = torch.log_softmax(logits, -1)
        a = torch.multinomial(logp.exp(), 1)
        return a[:, 0].numpy(), logp.gather(1, a)[:, 0].numpy(), v.numpy()


class League:
    """Frozen former selves. A snapshot joins every now and then, the weakest leaves."""

    def __init__(self, player, size):
        self.size, self.members, self.score = size, [], []
        self.join(player)

    def join(self, player):
        if len(self.members) == self.size:
            i = max(range(self.size), key=lambda k: self.score[k])
            self.members.pop(i)
            self.score.pop(i)
        self.members.append(copy.deepcopy(player).eval().requires_grad_(False))
        self.score.append(0.5)

    def draw(self):
        self.current = random.choices(range(len(self.members)), [1.2 - s for s in self.score])[0]
        return self.members[self.current]

    def report(self, win_rate):
        self.score[self.current] = 0.9 * self.score[self.current] + 0.1 * win_rate
