"""DQN on a vector of chains; after every update the mean Q value of 4,000 held-out states is written down, as in the paper."""

import numpy as np
import torch
from torch import nn

N_ENVS, LENGTH = 64, 30


class Chains:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.reset()

    def reset(self):
        self.at, self.age = np.zeros(N_ENVS, int), np.zeros(N_ENVS, int)
        return self.observe()

    def observe(self):
        return np.eye(LENGTH, dtype=np.float32)[self.at]

    def step(self, action):
        slip = self.rng.random(N_ENVS) < 0.1
        self.at = np.clip(self.at + np.where((action == 1) ^ slip, 1, -1), 0, LENGTH - 1)
        self.age += 1
        won = self.at == LENGTH - 1
        done = won | (self.age >= 100)
        self.at[done] = 0
        self.age[done] = 0
        return self.observe(), won.astype(np.float32), done, {}


def evaluate_q(net, held_out):
    with torch.no_grad():
        return net(held_out).max(-1).values.mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng, env = np.random.default_rng(1), Chains()
    net = nn.Sequential(nn.Linear(LENGTH, 128), nn.ReLU(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    size = 40_000
    states, nexts = np.zeros((size, LENGTH), np.float32), np.zeros((size, LENGTH), np.float32)
    actions, rewards, dones = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32)
    held_out = torch.eye(LENGTH)[torch.randint(0, LENGTH, (4_000,))]
    obs, filled, curve = env.reset(), 0, []
    while True:
        with torch.no_grad():
            greedy = net(torch.from_numpy(obs)).argmax(-1).numpy()
        action = np.where(rng.random(N_ENVS) < 0.1, rng.integers(0, 2, N_ENVS), greedy)
        new, reward, done, _ = env.step(action)
        rows = (filled + np.arange(N_ENVS)) % size
        states[rows], nexts[rows], actions[rows], rewards[rows], dones[rows] = obs, new, action, reward, done
        filled += N_ENVS
        obs = new
        pick = rng.integers(0, min(filled, size), 256)
        with torch.no_grad():
            best = net(torch.from_numpy(nexts[pick])).max(-1).values
            goal = torch.from_numpy(rewards[pick]) + 0.99 * (1 - torch.from_numpy(dones[pick])) * best
        q = net(torch.from_numpy(states[pick])).gather(1, torch.from_numpy(actions[pick])[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(evaluate_q(net, held_out))
        if len(curve) % 500 == 0:
            print(len(curve), curve[-1])


if __name__ == "__main__":
    main()
