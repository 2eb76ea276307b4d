import copy

import torch
from torch import nn


class DuelingNet(nn.Module):
    def __init__(self, obs_size, n_actions, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, n_actions + 1)

    def forward(self, x):
        out = self.head(self.body(x))
        adv, value = out[:, :-1], out[:, -1:]
        return value + adv - adv.mean(1, keepdim=True)


class RainbowAgent:
    """Rainbow without the distributional and the noisy part: double, dueling, n-step, prioritised."""

    def __init__(self, obs_size, n_actions, cfg):
        self.cfg = cfg
        self.n_actions = n_actions
        self.net = DuelingNet(obs_size, n_actions, cfg["hidden"])
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"], eps=1.5e-4, fused=True)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, eps, rng):
        if rng.random() < eps:
            return int(rng.integers(self.n_actions))
        return int(self.net(torch.from_numpy(obs).unsqueeze(0)).argmax())

    def learn(self, batch, weights):
        obs, action, ret, next_obs, discount = (torch.from_numpy(x) for x in batch)
        with torch.no_grad():
            best = self.net(next_obs).argmax(1, keepdim=True)
            target = ret + discount * self.target(next_obs).gather(1, best).squeeze(1)
        q = self.net(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        errors = target - q
        loss = (torch.from_numpy(weights) * errors.pow(2)).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg["target_every"] == 0:
            self.target.load_state_dict(self.net.state_dict())
        return errors.detach().abs().numpy()
