import torch.nn as nn


class BoardNet(nn.Module):
    def __init__(self, size, n_actions=3):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * (size // 2) ** 2, 64), nn.ReLU(),
            nn.Linear(64, n_actions),
        )

    def forward(self, x):
        return self.layers(x)
