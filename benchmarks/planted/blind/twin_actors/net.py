import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, o, a, h):
        super().__init__()
        self.c1 = nn.Conv2d(o[0], 16, 3, padding=1, padding_mode="zeros")
        self.c2 = nn.Conv2d(16, 16, 3, stride=2)
        self.b = nn.Linear(16 * 25, h)
        self.pi = nn.Linear(h, a)
        self.v = nn.Linear(h, 1)

    def forward(self, x):
        x = torch.relu(self.c1(x))
        x = torch.relu(self.c2(x))
        x = torch.relu(self.b(x.flatten(1)))
        return self.pi(x), self.v(x).squeeze(-1)
