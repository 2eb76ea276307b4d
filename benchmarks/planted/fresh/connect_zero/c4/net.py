import torch
import torch.nn as nn

from .env import COLS, ROWS


class PVNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(2 * ROWS * COLS, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
        )
        self.pi = nn.Linear(hidden, COLS)
        self.v = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), torch.tanh(self.v(h)).squeeze(-1)

    @torch.inference_mode()
    def predict(self, planes):
        logits, v = self(torch.from_numpy(planes).unsqueeze(0))
        return torch.softmax(logits[0], -1).numpy(), v.item()
