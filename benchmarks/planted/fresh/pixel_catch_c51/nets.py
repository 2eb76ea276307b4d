import torch
import torch.nn as nn
from tianshou.utils.net.common import ModuleWithVectorOutput


class SmallConv(ModuleWithVectorOutput):
    def __init__(self, n_act, atoms):
        super().__init__(n_act * atoms)
        self.n_act, self.atoms = n_act, atoms
        self.conv = nn.Sequential(
            nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(),
            nn.Conv2d(8, 16, 2, stride=2), nn.ReLU(), nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(16 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, n_act * atoms))

    def forward(self, obs, state=None, info=None):
        x = torch.as_tensor(obs).float() / 255.0
        z = self.head(self.conv(x)).view(-1, self.n_act, self.atoms)
        return z.softmax(-1), state
