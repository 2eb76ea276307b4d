import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvNet(nn.Module):
    def __init__(self, shape, n_actions, hidden=256):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3, stride=2)
        with torch.no_grad():
            flat = self.conv2(self.conv1(torch.zeros(1, *shape))).numel()
        self.fc = nn.Linear(flat, hidden)
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, frames):
        x = frames.to(torch.float32, memory_format=torch.channels_last).div_(255.0)
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.fc(x.flatten(1)))
        return F.log_softmax(self.pi(x), -1), self.v(x)[:, 0]
