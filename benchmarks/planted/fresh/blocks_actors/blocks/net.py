import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvAC(nn.Module):
    def __init__(self, n_actions):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16 * 36, 64)
        self.pi, self.v = nn.Linear(64, n_actions), nn.Linear(64, 1)

    def forward(self, x):
        x = x.float() / 255.0
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        x = F.relu(self.c3(x))
        x = F.relu(self.fc(x.flatten(1)))
        return self.pi(x), self.v(x).squeeze(-1)
