"""Categorical DQN on a vector of cliff walks: the projection of the target distribution follows the paper's pseudo-code."""

import numpy as np
import torch
from torch import nn

N_ENVS, WIDTH, HEIGHT = 16, 12, 4
ATOMS, V_MIN, V_MAX, GAMMA = 51, -20.0, 5.0, 0.97
BATCH = 128
DELTA = (V_MAX - V_MIN) / (ATOMS - 1)


class Cliffs:
    """All walks at once; falling off the cliff costs 10 and sends the walker back."""

    moves = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.at = np.zeros((N_ENVS, 2), int)
        self.age = np.zeros(N_ENVS, int)
        return self.observe()

    def observe(self):
        return np.concatenate([self.at / [HEIGHT, WIDTH], self.age[:, None] / 100.0], 1).astype(np.float32)

    def step(self, actions):
        self.at = np.clip(self.at + self.moves[actions], 0, [HEIGHT - 1, WIDTH - 1])
        self.age += 1
        fell = (self.at[:, 0] == 0) & (self.at[:, 1] > 0) & (self.at[:, 1] < WIDTH - 1)
        won = (self.at[:, 0] == 0) & (self.at[:, 1] == WIDTH - 1)
        done = won | (self.age > 100)
        reward = np.where(fell, -10.0, np.where(won, 5.0, -0.1)).astype(np.float32)
        self.at[fell | done] = 0
        self.age[done] = 0
        return self.observe(), reward, done, {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 4 * ATOMS))

    def forward(self, x):
        return torch.softmax(self.body(x).view(-1, 4, ATOMS), dim=-1)


def project(next_dist, rewards, dones):
    """Distributes the probability of Tz over the fixed atoms."""
    m = torch.zeros(BATCH, ATOMS)
    support = torch.linspace(V_MIN, V_MAX, ATOMS)
    for i in range(BATCH):
        tz = (rewards[i] + GAMMA * (1 - dones[i]) * support).clamp(V_MIN, V_MAX)
        b = (tz - V_MIN) / DELTA
        low, up = b.floor().long(), b.ceil().long()
        m[i].index_add_(0, low, next_dist[i] * (up + (low == up).float() - b))
        m[i].index_add_(0, up, next_dist[i] * (b - low))
    return m


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    env, net, target = Cliffs(), Net(), Net()
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    atoms = torch.linspace(V_MIN, V_MAX, ATOMS)
    size = 50_000
    states, nexts = np.zeros((size, 3), np.float32), np.zeros((size, 3), np.float32)
    actions, rewards, dones = np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32)
    obs, filled, updates = env.reset(), 0, 0
    while True:
        with torch.no_grad():
            greedy = (net(torch.from_numpy(obs)) * atoms).sum(-1).argmax(-1).numpy()
        chosen = np.where(rng.random(N_ENVS) < 0.1, rng.integers(0, 4, N_ENVS), greedy)
        new, reward, done, _ = env.step(chosen)
        rows = (filled + np.arange(N_ENVS)) % size
        states[rows], nexts[rows], actions[rows], rewards[rows], dones[rows] = obs, new, chosen, reward, done
        filled += N_ENVS
        obs = new
        if filled < 1_000 or filled // N_ENVS % 4:
            continue
        pick = rng.integers(0, min(filled, size), BATCH)
        with torch.no_grad():
            dist = target(torch.from_numpy(nexts[pick]))
            best = (dist * atoms).sum(-1).argmax(-1)
            goal = project(dist[torch.arange(BATCH), best], torch.from_numpy(rewards[pick]), torch.from_numpy(dones[pick]))
        now = net(torch.from_numpy(states[pick]))[torch.arange(BATCH), torch.from_numpy(actions[pick])]
        loss = -(goal * now.clamp_min(1e-6).log()).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if updates % 500 == 0:
            target.load_state_dict(net.state_dict())
            print(updates, loss.item())


if __name__ == "__main__":
    main()
