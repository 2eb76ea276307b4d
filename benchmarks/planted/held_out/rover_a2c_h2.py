"""A2C for a small rover that must drive to a beacon over rough ground."""
import math
import random

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

SEED = 11
SIDE = 96
N_ROVERS = 8
HORIZON = 32
UNROLL = 32
GAMMA = 0.98
TOTAL_UPDATES = 200_000


def load_site(name):
    """Heights and traction of a landing site."""
    rng = np.random.default_rng(sum(map(ord, name)))
    heights = np.zeros((SIDE, SIDE))
    for octave in range(5):
        cells = 3 * 2 ** octave
        coarse = rng.normal(size=(cells + 1, cells + 1))
        grid = np.linspace(0, cells - 1e-6, SIDE)
        i = grid.astype(int)
        f = grid - i
        rows = coarse[i] * (1 - f)[:, None] + coarse[i + 1] * f[:, None]
        heights += (rows[:, i] * (1 - f) + rows[:, i + 1] * f) / 2 ** octave
    for _ in range(40):
        ring = (np.roll(heights, 1, 0) + np.roll(heights, -1, 0)
                + np.roll(heights, 1, 1) + np.roll(heights, -1, 1)) / 4
        heights = heights + 0.1 * (ring - heights)
    gy, gx = np.gradient(heights)
    traction = 1.0 / (1.0 + 4.0 * np.hypot(gx, gy))
    return heights.astype(np.float32), traction.astype(np.float32)


class Rover:
    HEADINGS = 8

    def __init__(self, rng, site="gale"):
        self.rng = rng
        self.site = site

    def reset(self):
        self.heights, self.traction = load_site(self.site)
        self.x, self.y = self.rng.uniform(20, SIDE - 20, size=2).tolist()
        angle = self.rng.uniform(0, 2 * math.pi)
        self.bx = self.x + 12 * math.cos(angle)
        self.by = self.y + 12 * math.sin(angle)
        self.clock = 0
        return self.observe()

    def observe(self):
        r, c = int(self.y), int(self.x)
        here = self.heights[r, c]
        return (
            (self.bx - self.x) / 12, (self.by - self.y) / 12,
            float(self.heights[r, c + 2] - here), float(self.heights[r, c - 2] - here),
            float(self.heights[r + 2, c] - here), float(self.heights[r - 2, c] - here),
            self.clock / HORIZON,
        )

    def step(self, heading):
        before = math.hypot(self.bx - self.x, self.by - self.y)
        pace = 1.2 * float(self.traction[int(self.y), int(self.x)])
        angle = 2 * math.pi * heading / self.HEADINGS
        self.x = min(max(self.x + pace * math.cos(angle), 3.0), SIDE - 4.0)
        self.y = min(max(self.y + pace * math.sin(angle), 3.0), SIDE - 4.0)
        self.clock += 1
        after = math.hypot(self.bx - self.x, self.by - self.y)
        arrived = after < 1.0
        reward = before - after - 0.05 + (5.0 if arrived else 0.0)
        return self.observe(), reward, arrived or self.clock >= HORIZON


class Brain(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())
        self.head = nn.Linear(96, Rover.HEADINGS + 1)

    def forward(self, x):
        out = self.head(self.body(x))
        return out[..., :-1], out[..., -1]


def pick(logits):
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_(1e-9, 1 - 1e-7)))
    return (logits + noise).argmax(-1)


def train():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    fleet = [Rover(np.random.default_rng(SEED + k)) for k in range(N_ROVERS)]
    brain = Brain()
    opt = torch.optim.RMSprop(brain.parameters(), lr=1e-3, alpha=0.99, eps=1e-5)
    seen = np.zeros((UNROLL, N_ROVERS, 7), np.float32)
    chosen = np.zeros((UNROLL, N_ROVERS), np.int64)
    paid = np.zeros((UNROLL, N_ROVERS), np.float32)
    over = np.zeros((UNROLL, N_ROVERS), np.float32)
    state = np.array([rover.reset() for rover in fleet], np.float32)
    moves, score = 0, 0.0

    for update in range(1, TOTAL_UPDATES + 1):
        for t in range(UNROLL):
            with torch.no_grad():
                logits, _ = brain(torch.from_numpy(state))
                headings = pick(logits).numpy()
            seen[t] = state
            chosen[t] = headings
            for k, heading in enumerate(headings.tolist()):
                obs, reward, ended = fleet[k].step(heading)
                paid[t, k] = reward
                over[t, k] = ended
                state[k] = fleet[k].reset() if ended else obs
            moves += N_ROVERS

        with torch.no_grad():
            future = brain(torch.from_numpy(state))[1].numpy()
        targets = np.zeros((UNROLL, N_ROVERS), np.float32)
        for t in range(UNROLL - 1, -1, -1):
            future = paid[t] + GAMMA * (1 - over[t]) * future
            targets[t] = future

        logits, value = brain(torch.from_numpy(seen))
        logp = F.log_softmax(logits, -1)
        target = torch.from_numpy(targets)
        advantage = target - value.detach()
        taken = logp.gather(-1, torch.from_numpy(chosen).unsqueeze(-1)).squeeze(-1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(taken * advantage).mean() + 0.25 * F.mse_loss(value, target) - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(brain.parameters(), 1.0)
        opt.step()

        score = 0.98 * score + 0.02 * float(paid.mean())
        if update % 200 == 0:
            print(f"update {update} moves {moves} reward/step {score:.3f}", flush=True)


if __name__ == "__main__":
    train()
