import torch
import torch.nn as nn
import torch.nn.functional as F


class PolicyValueNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(2 * 6 * 7, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
        )
        self.pi = nn.Linear(hidden, 7)
        self.v = nn.Linear(hidden, 1)

    def forward(self, x):
        z = self.body(x)
        return self.pi(z), torch.tanh(self.v(z)).squeeze(-1)

    @torch.inference_mode()
    def predict(self, planes):
        logits, v = self(torch.from_numpy(planes).unsqueeze(0))
        return F.softmax(logits[0], -1).numpy(), v.item()
