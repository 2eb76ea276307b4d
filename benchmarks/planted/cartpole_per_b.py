"""DQN with prioritised replay on CartPole."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class SumTree:
    def __init__(self, size):
        self.size, self.nodes = size, [0.0] * (2 * size)

    def set(self, index, value):
        node = index + self.size
        self.nodes[node] = value
        while node > 1:
            node //= 2
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1]

    def find(self, mass):
        node = 1
        while node < self.size:
            node *= 2
            if mass > self.nodes[node]:
                mass -= self.nodes[node]
                node += 1
        return node - self.size


def make_net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, size, batch, gamma = 64, 65_536, 256, 0.98
    envs = gym.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")
    dim, moves = 4, 2
    net, target = make_net(dim, moves), make_net(dim, moves)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    states, after = np.zeros((2, size, dim), np.float32)
    taken, (rewards, ends) = np.zeros(size, np.int64), np.zeros((2, size), np.float32)
    tree, top, head = SumTree(size), 1.0, 0
    obs, _ = envs.reset(seed=0)
    for step in range(2_000_000):
        with torch.no_grad():
            actions = net(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(n) < 0.1
        actions[explore] = rng.integers(0, moves, explore.sum())
        new, reward, hit, late, _ = envs.step(actions)
        at = slice(head, head + n)
        states[at], taken[at], rewards[at], after[at], ends[at] = obs, actions, reward, new, hit
        for i in range(head, head + n):
            tree.set(i, top)
        head, obs = (head + n) % size, new
        masses = (np.arange(batch) + rng.random(batch)) * tree.nodes[1] / batch
        pick = np.array([tree.find(mass) for mass in masses])
        with torch.no_grad():
            best = target(torch.from_numpy(after[pick])).max(1).values
            goal = torch.from_numpy(rewards[pick]) + gamma * torch.from_numpy(1 - ends[pick]) * best
        value = net(torch.from_numpy(states[pick])).gather(1, torch.from_numpy(taken[pick])[:, None]).squeeze(1)
        error = goal - value
        loss = error.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        fresh = (error.detach().abs().numpy() + 0.01) ** 0.6
        for i, value in zip(pick, fresh):
            tree.set(int(i), float(value))
        top = max(top, float(fresh.max()))
        if step % 500 == 0:
            target.load_state_dict(net.state_dict())
            print(step, float(reward.mean()))


if __name__ == "__main__":
    main()
