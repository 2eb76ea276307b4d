import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from game import ROWS, COLS


def encode(g):
    b = np.asarray(g.board, dtype=np.float32).reshape(-1) * g.to_move
    return np.concatenate([b > 0, b < 0]).astype(np.float32)


class PVNet(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.fc1 = nn.Linear(2 * ROWS * COLS, width)
        self.fc2 = nn.Linear(width, width)
        self.pi = nn.Linear(width, COLS)
        self.v = nn.Linear(width, 1)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        h = F.relu(self.fc2(h))
        return self.pi(h), torch.tanh(self.v(h)).squeeze(-1)

    @torch.inference_mode()
    def predict(self, g):
        logits, v = self(torch.from_numpy(encode(g)).unsqueeze(0))
        return torch.softmax(logits[0], 0).tolist(), float(v)
