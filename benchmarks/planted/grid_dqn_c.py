"""DQN on a grid with a goal."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn

SIDE = 12
FEATURES = 24
NUM_ENVS = 256
BATCH = 1024


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


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    env = GridVec(NUM_ENVS)
    net, target = q_net(FEATURES, 4), q_net(FEATURES, 4)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, foreach=True)
    replay = Replay(NUM_ENVS * 1000, FEATURES)
    obs, _ = env.reset(seed=7)
    for step in range(10_000_000):
        epsilon = max(0.05, 1.0 - step / 5000)
        with torch.no_grad():
            greedy = net(torch.from_numpy(obs)).argmax(dim=1).numpy()
        explore = rng.random(NUM_ENVS) < epsilon
        actions = np.where(explore, rng.integers(0, 4, NUM_ENVS), greedy)
        next_obs, rewards, done, _, _ = env.step(actions)
        replay.add(obs, actions, rewards, next_obs, done)
        obs = next_obs
        if step < 20:
            continue
        rows = rng.integers(0, replay.size, BATCH)
        seen, acted, reward, after, over = replay.take(rows)
        with torch.no_grad():
            goal = reward + 0.97 * (1.0 - over) * target(after).amax(dim=1)
        value = net(seen).gather(1, acted[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 250 == 0:
            target.load_state_dict(net.state_dict())


if __name__ == "__main__":
    main()
