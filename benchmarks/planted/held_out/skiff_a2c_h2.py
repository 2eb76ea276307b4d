"""A2C for skiffs that tack up a river towards a mark."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Config:
    seed: int = 31
    skiffs: int = 1024
    unroll: int = 16
    gamma: float = 0.98
    lr: float = 2e-3
    entropy: float = 0.01
    updates: int = 500_000


class Regatta:
    """All skiffs sail at once; state arrays are float32 columns."""

    TURN = np.array([-0.25, 0.0, 0.25], np.float32)

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.x = np.zeros(n, np.float32)
        self.y = np.zeros(n, np.float32)
        self.course = np.zeros(n, np.float32)
        self.wind = np.zeros(n, np.float32)
        self.clock = np.zeros(n, np.int32)
        self.start(np.arange(n))
        self.clock[:] = self.rng.integers(0, 120, n)

    def start(self, who):
        k = len(who)
        self.x[who] = self.rng.uniform(-0.8, 0.8, k)
        self.y[who] = self.rng.uniform(0.0, 1.0, k)
        self.course[who] = self.rng.uniform(-1, 1, k)
        self.wind[who] = self.rng.normal(0, 0.3, k)
        self.clock[who] = 0

    def look(self, out):
        out[:, 0], out[:, 1], out[:, 5] = self.x, self.y, self.wind
        np.sin(self.course, out=out[:, 2])
        np.cos(self.course, out=out[:, 3])
        np.cos(self.course - self.wind, out=out[:, 4])

    def step(self, turn, reward):
        self.course += self.TURN[turn]
        off = np.abs(self.course - self.wind)
        speed = 0.05 * np.minimum(off, 1.2) + 0.01
        climb = speed * np.cos(self.course)
        self.x += speed * np.sin(self.course)
        self.y += climb
        self.clock += 1
        aground = np.abs(self.x) > 1
        finished = self.y > 3
        reward[:] = 10 * climb
        reward += finished
        reward -= aground
        ended = aground | finished | (self.clock >= 120)
        who = np.flatnonzero(ended)
        if len(who):
            self.start(who)
        return ended


class Skipper(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        self.head = nn.Linear(128, 4)

    def forward(self, x):
        out = self.head(self.body(x))
        return out[..., :3], out[..., 3]


def main():
    cfg = Config()
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    river = Regatta(cfg.skiffs, cfg.seed)
    skipper = Skipper()
    opt = torch.optim.RMSprop(skipper.parameters(), lr=cfg.lr, eps=1e-5)
    T, N = cfg.unroll, cfg.skiffs
    seen = np.zeros((T + 1, N, 6), np.float32)
    turns = torch.zeros(T, N, dtype=torch.long)
    rewards = np.zeros((T, N), np.float32)
    goals = np.zeros((T, N), np.float32)
    live = np.zeros((T, N), np.float32)
    noise = torch.zeros(N, 3)
    river.look(seen[0])
    sailed = 0

    for update in range(1, cfg.updates + 1):
        with torch.inference_mode():
            for t in range(T):
                logits, _ = skipper(torch.from_numpy(seen[t]))
                torch.argmax(logits - noise.exponential_().log_(), 1, out=turns[t])
                live[t] = ~river.step(turns[t].numpy(), rewards[t])
                river.look(seen[t + 1])
            run = skipper(torch.from_numpy(seen[T]))[1].numpy()
        sailed += T * N
        for t in range(T - 1, -1, -1):
            run = rewards[t] + cfg.gamma * live[t] * run
            goals[t] = run

        goal = torch.from_numpy(goals)
        logits, value = skipper(torch.from_numpy(seen[:T]))
        logp = torch.log_softmax(logits, -1)
        error = goal - value
        edge = error.detach()
        edge = (edge - edge.mean()) / (edge.std() + 1e-6)
        taken = logp.gather(-1, turns.unsqueeze(-1)).squeeze(-1)
        spread = (logp.exp() * logp).sum(-1).mean()
        loss = -(taken * edge).mean() + 0.5 * error.pow(2).mean() + cfg.entropy * spread
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(skipper.parameters(), 0.5)
        opt.step()
        seen[0] = seen[T]
        if update % 100 == 0:
            print(f"update {update} sailed {sailed} reward {rewards.mean():.4f}", flush=True)


if __name__ == "__main__":
    main()
