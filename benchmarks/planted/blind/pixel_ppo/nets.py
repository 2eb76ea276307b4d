import torch.nn as nn


class ConvAC(nn.Module):
    def __init__(self, n_act, ch=16, wide=384):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, ch, 3), nn.ReLU(), nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(ch * 64, wide), nn.ReLU())
        self.out = nn.Linear(wide, n_act + 1)
        nn.init.orthogonal_(self.out.weight, 0.05)

    def forward(self, x):
        y = self.out(self.fc(self.conv(x)))
        return y[:, :-1], y[:, -1]
