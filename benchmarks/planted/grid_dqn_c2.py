"""DQN with prioritised replay on a grid with a goal."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn

SIDE = 16
FEATURES = 32
NUM_ENVS = 256
BATCH = 1024
CAPACITY = 32768


class GridVec(VectorEnv):
    """Reach the goal on a square grid; positions are seen as radial features."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32)
        self.single_action_space = gym.spaces.Discrete(4)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
        points = np.linspace(0.0, SIDE - 1.0, FEATURES // 4)
        self.table = np.exp(-np.square(np.arange(SIDE)[:, None] - points)).astype(np.float32)

    def _observe(self):
        return self.table[self.cells].reshape(self.num_envs, FEATURES)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.cells = self.rng.integers(0, SIDE, (self.num_envs, 4))
        self.time = self.rng.integers(0, 60, self.num_envs)
        return self._observe(), {}

    def step(self, actions):
        self.cells[:, :2] = np.clip(self.cells[:, :2] + self.moves[actions], 0, SIDE - 1)
        self.time += 1
        reached = (self.cells[:, :2] == self.cells[:, 2:]).all(axis=1)
        cut = self.time >= 60
        reward = np.where(reached, np.float32(1.0), np.float32(-0.02))
        over = np.flatnonzero(reached | cut)
        if len(over):
            self.cells[over] = self.rng.integers(0, SIDE, (len(over), 4))
            self.time[over] = 0
        return self._observe(), reward, reached, cut, {}


class Replay:
    def __init__(self, capacity, inputs):
        self.obs = np.zeros((capacity, inputs), np.float32)
        self.next_obs = np.zeros((capacity, inputs), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.dones = np.zeros(capacity, np.float32)
        self.capacity, self.head, self.size = capacity, 0, 0

    def add(self, obs, actions, rewards, next_obs, dones):
        rows = slice(self.head, self.head + len(actions))
        self.obs[rows], self.next_obs[rows] = obs, next_obs
        self.actions[rows], self.rewards[rows], self.dones[rows] = actions, rewards, dones
        self.head = (self.head + len(actions)) % self.capacity
        self.size = min(self.size + len(actions), self.capacity)

    def take(self, rows):
        parts = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return [torch.from_numpy(part[rows]) for part in parts]


def q_net(inputs, actions, width=128):
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, actions),
    )


class Priorities:
    """A sum tree whose draws and updates run level by level on whole batches."""

    def __init__(self, capacity):
        self.leaves = 1 << (capacity - 1).bit_length()
        self.depth = self.leaves.bit_length() - 1
        self.tree = np.zeros(2 * self.leaves)

    def update(self, rows, values):
        nodes = rows + self.leaves
        self.tree[nodes] = values
        for _ in range(self.depth):
            nodes = nodes >> 1
            self.tree[nodes] = self.tree[2 * nodes] + self.tree[2 * nodes + 1]

    def draw(self, rng, count):
        mass = (np.arange(count) + rng.random(count)) * (self.tree[1] / count)
        nodes = np.ones(count, np.int64)
        for _ in range(self.depth):
            nodes = 2 * nodes
            left = self.tree[nodes]
            right = mass > left
            mass -= left * right
            nodes += right
        return nodes - self.leaves, self.tree[nodes] / self.tree[1]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    env = GridVec(NUM_ENVS)
    net, target = q_net(FEATURES, 4), q_net(FEATURES, 4)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, foreach=True)
    replay = Replay(CAPACITY, FEATURES)
    priorities = Priorities(CAPACITY)
    obs, _ = env.reset(seed=8)
    for step in range(10_000_000):
        epsilon = max(0.05, 1.0 - step / 5000)
        with torch.no_grad():
            greedy = net(torch.from_numpy(obs)).argmax(dim=1).numpy()
        explore = rng.random(NUM_ENVS) < epsilon
        actions = np.where(explore, rng.integers(0, 4, NUM_ENVS), greedy)
        next_obs, rewards, done, _, _ = env.step(actions)
        priorities.update(replay.head + np.arange(NUM_ENVS), 1.0)
        replay.add(obs, actions, rewards, next_obs, done)
        obs = next_obs
        if step < 10:
            continue
        rows, chance = priorities.draw(rng, BATCH)
        weight = (replay.size * chance) ** -0.5
        weight = torch.from_numpy((weight / weight.max()).astype(np.float32))
        seen, acted, reward, after, over = replay.take(rows)
        with torch.no_grad():
            goal = reward + 0.97 * (1.0 - over) * target(after).amax(dim=1)
        value = net(seen).gather(1, acted[:, None]).squeeze(1)
        error = value - goal
        loss = (weight * error.square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        priorities.update(rows, (error.detach().abs().numpy() + 0.01) ** 0.6)
        if step % 250 == 0:
            target.load_state_dict(net.state_dict())


if __name__ == "__main__":
    main()
