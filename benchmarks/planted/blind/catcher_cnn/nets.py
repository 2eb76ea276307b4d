import torch as th
import torch.nn as nn
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1)
        self.b = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        y = self.b(th.relu(self.a(th.relu(x))))
        return x + y


class SmallImpala(BaseFeaturesExtractor):
    def __init__(self, observation_space, chans=(16, 32), out=256):
        super().__init__(observation_space, out)
        c = observation_space.shape[0]
        # stride first: 48 -> 12 before the residual stuff
        self.stem = nn.Sequential(nn.Conv2d(c, chans[0], 8, stride=4, padding=2), nn.ReLU())
        self.r1 = ResBlock(chans[0])
        self.down = nn.Conv2d(chans[0], chans[1], 3, stride=2, padding=1)
        self.r2 = ResBlock(chans[1])
        self.head = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(chans[1] * 6 * 6, out), nn.ReLU())

    def forward(self, x):
        return self.head(self.r2(self.down(self.r1(self.stem(x)))))
