import torch
from torch import nn


class ConvQ(nn.Module):
    """Dueling network on uint8 images."""

    def __init__(self, actions: int, channels=(32, 64, 64), width: int = 256, size: int = 40):
        super().__init__()
        a, b, c = channels
        self.conv = nn.Sequential(
            nn.Conv2d(3, a, 4, stride=2), nn.ReLU(),
            nn.Conv2d(a, b, 3, stride=2), nn.ReLU(),
            nn.Conv2d(b, c, 3, stride=1), nn.ReLU(), nn.Flatten(-3))
        with torch.no_grad():
            flat = self.conv(torch.zeros(1, 3, size, size)).shape[-1]
        self.value = nn.Sequential(nn.Linear(flat, width), nn.ReLU(), nn.Linear(width, 1))
        self.advantage = nn.Sequential(nn.Linear(flat, width), nn.ReLU(), nn.Linear(width, actions))

    def forward(self, pixels):
        h = self.conv(pixels.float() / 255.0)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(-1, keepdim=True)
