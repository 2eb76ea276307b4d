import copy
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from catcher import Catcher
from replay_dataset import ReplayDataset

HP = {
    "stack": 3, "capacity": 6000, "batch_size": 64, "warmup": 500, "learn_every": 4, "sync_every": 250,
    "gamma": 0.97, "lr": 3e-4, "eps": (1.0, 0.05, 15_000), "total_frames": 1_000_000, "seed": 8,
}


class PixelQ(nn.Module):
    def __init__(self, stack, n_actions):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(stack, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, n_actions))

    def forward(self, x):
        return self.head(self.features(x.float().div_(255)))


class PixelAgent:
    def __init__(self, n_actions):
        self.n_actions = n_actions
        self.q = PixelQ(HP["stack"], n_actions)
        self.frozen = copy.deepcopy(self.q).requires_grad_(False)
        self.optim = torch.optim.Adam(self.q.parameters(), lr=HP["lr"], fused=True)
        self.data = ReplayDataset(HP["capacity"], HP["batch_size"])
        self.loader = None
        self.updates = 0

    def act(self, frames, eps):
        if np.random.rand() < eps:
            return np.random.randint(self.n_actions)
        with torch.inference_mode():
            return self.q(torch.from_numpy(frames).unsqueeze(0)).argmax().item()

    def learn(self):
        if self.loader is None:
            self.loader = iter(DataLoader(self.data, batch_size=None, num_workers=0))
        s, a, r, s2, d = next(self.loader)
        with torch.no_grad():
            y = r + HP["gamma"] * (1 - d) * self.frozen(s2).amax(1)
        loss = F.smooth_l1_loss(self.q(s).gather(1, a[:, None])[:, 0], y)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.updates += 1
        if self.updates % HP["sync_every"] == 0:
            self.frozen.load_state_dict(self.q.state_dict())
        return loss


def main():
    torch.set_num_threads(1)
    torch.manual_seed(HP["seed"])
    np.random.seed(HP["seed"])
    env = Catcher(HP["seed"])
    agent = PixelAgent(len(env.actions))
    hi, lo, span = HP["eps"]
    frame = env.reset()
    window = deque([frame] * HP["stack"], maxlen=HP["stack"])
    state, score, scores, loss, t0 = np.stack(window), 0.0, [], None, time.time()
    for n in range(1, HP["total_frames"] + 1):
        eps = max(lo, hi - (hi - lo) * n / span)
        action = agent.act(state, eps)
        frame, reward, done = env.step(action)
        window.append(frame)
        nxt = np.stack(window)
        agent.data.append(state, action, reward, nxt, done)
        state, score = nxt, score + reward
        if n >= HP["warmup"] and n % HP["learn_every"] == 0:
            loss = agent.learn()
        if done:
            scores.append(score)
            score, frame = 0.0, env.reset()
            window.extend([frame] * HP["stack"])
            state = np.stack(window)
        if n % 100 == 0 and loss is not None:
            print(f"frame steps {n} score {np.mean(scores[-10:]) if scores else 0:.1f} eps {eps:.2f} "
                  f"loss {loss.item():.4f} {n / (time.time() - t0):.0f}/s", flush=True)


if __name__ == "__main__":
    main()
