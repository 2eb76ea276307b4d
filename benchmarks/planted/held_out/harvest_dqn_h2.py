"""DQN for harvesters that gather ripe plots on a strip of farmland."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn

SEED = 29
PLOTS = 12


class Strip:
    """Many independent harvesters; each drives along its own strip of plots."""

    def __init__(self, count, seed):
        self.count = count
        self.rng = np.random.default_rng(seed)
        self.ripe = self.rng.random((count, PLOTS)).astype(np.float32)
        self.at = self.rng.integers(0, PLOTS, count)
        self.fuel = np.full(count, 60)

    def view(self):
        out = np.zeros((self.count, 2 * PLOTS + 1), np.float32)
        out[:, :PLOTS] = self.ripe
        out[np.arange(self.count), PLOTS + self.at] = 1.0
        out[:, -1] = self.fuel / 60
        return out

    def step(self, action):
        rows = np.arange(self.count)
        self.at = np.clip(self.at + (action == 1) - (action == 2), 0, PLOTS - 1)
        cutting = action == 0
        gain = np.where(cutting, self.ripe[rows, self.at] ** 2 - 0.1, -0.02).astype(np.float32)
        self.ripe[rows[cutting], self.at[cutting]] = 0.0
        self.ripe = np.minimum(self.ripe + 0.03 * self.rng.random((self.count, PLOTS), dtype=np.float32), 1.0)
        self.fuel -= 1
        done = self.fuel <= 0
        after = self.view()
        if done.any():
            self.ripe[done] = self.rng.random((int(done.sum()), PLOTS), dtype=np.float32)
            self.fuel[done] = 60
        return after, gain, done


class ReplayMemory:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def __len__(self):
        return len(self.items)

    def push(self, view, action, gain, after, done):
        self.items.extend(zip(view, action, gain, after, done))

    def draw(self, n):
        where = np.random.choice(len(self.items), n, replace=False)
        view, action, gain, after, done = zip(*[self.items[i] for i in where])
        return np.stack(view), np.array(action), np.array(gain), np.stack(after), np.array(done)


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * PLOTS + 1, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())
        self.adv = nn.Linear(96, 3)
        self.val = nn.Linear(96, 1)

    def forward(self, x):
        h = self.net(x)
        a = self.adv(h)
        return self.val(h) + a - a.mean(1, keepdim=True)


class Learner:
    def __init__(self, memory, batch=128, gamma=0.97, lr=5e-4):
        self.memory, self.batch, self.gamma = memory, batch, gamma
        self.q, self.frozen = QNet(), QNet()
        self.frozen.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.count = 0

    @torch.no_grad()
    def act(self, view, eps):
        best = self.q(torch.from_numpy(view)).argmax(1).numpy()
        wild = np.random.random(len(view)) < eps
        best[wild] = np.random.randint(0, 3, int(wild.sum()))
        return best

    def improve(self):
        view, action, gain, after, done = self.memory.draw(self.batch)
        with torch.no_grad():
            top = self.frozen(torch.from_numpy(after)).max(1).values
            goal = torch.from_numpy(gain) + self.gamma * torch.from_numpy(~done) * top
        q = self.q(torch.from_numpy(view)).gather(1, torch.from_numpy(action)[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.count += 1
        if self.count % 400 == 0:
            self.frozen.load_state_dict(self.q.state_dict())
        return loss.detach()


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    strip = Strip(64, SEED)
    memory = ReplayMemory(100_000)
    learner = Learner(memory)
    view = strip.view()
    while len(memory) < 60_000:
        action = np.random.randint(0, 3, strip.count)
        after, gain, done = strip.step(action)
        memory.push(view, action, gain, after, done)
        view = strip.view() if done.any() else after

    taken, gains, loss = 0, 0.0, torch.zeros(())
    for tick in range(1, 2_000_000):
        action = learner.act(view, max(0.05, 1.0 - tick / 5000))
        after, gain, done = strip.step(action)
        memory.push(view, action, gain, after, done)
        view = strip.view() if done.any() else after
        taken += strip.count
        loss = learner.improve()
        gains += float(gain.mean())
        if tick % 1000 == 0:
            print(f"tick {tick} steps {taken} gain {gains / 1000:.4f} loss {loss.item():.4f}", flush=True)
            gains = 0.0


if __name__ == "__main__":
    main()
