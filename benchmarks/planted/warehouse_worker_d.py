"""A2C on four warehouses in processes of their own; one of them has far more shelves than the others."""

import multiprocessing as mp

import numpy as np
import torch
from torch import nn

SHELVES = [20, 20, 20, 2_000]


class Warehouse:
    def __init__(self, shelves, seed):
        self.rng = np.random.default_rng(seed)
        self.shelves = shelves
        self.reset()

    def reset(self):
        self.stock = self.rng.random((self.shelves, 8))
        self.at, self.age = self.rng.random(4).astype(np.float32), 0
        return self.at.copy()

    def step(self, action):
        for _ in range(10):
            self.stock = np.clip(self.stock * 0.99 + 0.01 * np.sort(self.stock, axis=0), 0, 1)
        self.at = (0.9 * self.at + 0.1 * np.array([action == i for i in range(4)])).astype(np.float32)
        self.age += 1
        return self.at.copy(), float(self.at[0] + 0.01 * self.stock.mean()), self.age >= 200, {}


def worker(pipe, shelves, seed):
    env = Warehouse(shelves, seed)
    pipe.send(env.reset())
    while True:
        obs, reward, done, _ = env.step(pipe.recv())
        if done:
            obs = env.reset()
        pipe.send((obs, reward, done))


class Workers:
    def __init__(self):
        self.pipes = []
        for seed, shelves in enumerate(SHELVES):
            here, there = mp.Pipe()
            mp.Process(target=worker, args=(there, shelves, seed), daemon=True).start()
            self.pipes.append(here)
        self.first = np.stack([pipe.recv() for pipe in self.pipes])

    def step(self, actions):
        for pipe, action in zip(self.pipes, actions, strict=True):
            pipe.send(int(action))
        obs, rewards, dones = zip(*(pipe.recv() for pipe in self.pipes), strict=True)
        return np.stack(obs), np.array(rewards, np.float32), np.array(dones), {}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    envs = Workers()
    net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    obs, updates = envs.first, 0
    while True:
        seen, chosen, rewards = [], [], []
        for _ in range(16):
            with torch.no_grad():
                logits = net(torch.from_numpy(obs))[:, :4]
                actions = torch.multinomial(torch.softmax(logits, -1), 1).squeeze(1).numpy()
            new, reward, _, _ = envs.step(actions)
            seen.append(obs)
            chosen.append(actions)
            rewards.append(reward)
            obs = new
        returns = np.cumsum(np.stack(rewards)[::-1], 0)[::-1].copy()
        out = net(torch.from_numpy(np.concatenate(seen)))
        goal = torch.from_numpy(returns.reshape(-1))
        log_prob = torch.log_softmax(out[:, :4], -1).gather(1, torch.from_numpy(np.concatenate(chosen))[:, None]).squeeze(1)
        advantage = goal - out[:, 4]
        loss = -(log_prob * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if updates % 50 == 0:
            print(updates, loss.item())


if __name__ == "__main__":
    main()
