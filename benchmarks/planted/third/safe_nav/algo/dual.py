import torch
import torch.nn as nn


class DualVariable(nn.Module):
    """Lagrange multiplier with dual ascent. A slow average of it weighs the cost in the actor loss,
    so that the penalty does not jump from one update to the next."""

    def __init__(self, limit, lr=5e-3, init=0.5, smoothing=0.02, upper=50.0):
        super().__init__()
        self.limit, self.smoothing, self.upper = limit, smoothing, upper
        self.raw = nn.Parameter(torch.tensor(init))
        self.smooth = torch.tensor(init)
        self.opt = torch.optim.SGD([self.raw], lr=lr)

    def ascend(self, expected_cost):
        loss = -self.raw * (expected_cost - self.limit)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            self.raw.clamp_(0.0, self.upper)
        self.smooth = torch.lerp(self.smooth, self.raw, self.smoothing)

    @property
    def weight(self):
        return self.smooth
