import numpy as np
import torch
import torch.nn as nn

LEVELS = 14


def encode(boards):
    """List of boards -> one-hot (n, LEVELS * 16) float tensor."""
    levels = np.minimum(np.asarray(boards, np.int64).reshape(len(boards), -1), LEVELS - 1)
    return encode_levels(torch.from_numpy(levels))


def encode_levels(levels):
    return nn.functional.one_hot(levels, LEVELS).flatten(1).float()


class ValueNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LEVELS * 16, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


class AfterstateMemory:
    def __init__(self, capacity, seed):
        self.s = np.zeros((capacity, 16), np.int64)
        self.r = np.zeros(capacity, np.float32)
        self.s2 = np.zeros((capacity, 16), np.int64)
        self.end = np.zeros(capacity, np.float32)
        self.capacity, self.n, self.i = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, s, r, s2, end):
        i = self.i
        self.s[i] = np.ravel(s)
        self.r[i], self.end[i] = r, end
        if s2 is not None:
            self.s2[i] = np.ravel(s2)
        self.i = (i + 1) % self.capacity
        self.n = max(self.n, i + 1)

    def sample(self, k):
        j = self.rng.integers(0, self.n, k)
        s, s2 = (encode_levels(torch.from_numpy(np.minimum(x[j], LEVELS - 1))) for x in (self.s, self.s2))
        return s, torch.from_numpy(self.r[j]), s2, torch.from_numpy(self.end[j])
