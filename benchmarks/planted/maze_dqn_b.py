"""DQN with a wide network on a small maze."""

from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class MazeVec(gym.vector.VectorEnv):
    """Runners in a maze that are told the walking distance to the exit around them."""

    MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))

    def __init__(self, num_envs, size=12):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.single_action_space = gym.spaces.Discrete(4)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.size = size
        walls = np.random.default_rng(5).random((size, size)) < 0.2
        self.free = [(int(r), int(c)) for r, c in np.argwhere(~walls)]
        self.open = set(self.free)

    def _distances(self, start):
        found, queue = {start: 0}, deque([start])
        while queue:
            r, c = queue.popleft()
            for dr, dc in self.MOVES:
                cell = (r + dr, c + dc)
                if cell in self.open and cell not in found:
                    found[cell] = found[r, c] + 1
                    queue.append(cell)
        return found

    def _look(self, i):
        far, (r, c) = self._distances(self.exits[i]), self.cells[i]
        around = [far.get((r + dr, c + dc), 99) / 20 for dr, dc in self.MOVES]
        return (*around, r / self.size, c / self.size)

    def _spawn(self, i):
        a, b = self.rng.integers(0, len(self.free), 2)
        self.cells[i], self.exits[i], self.age[i] = self.free[a], self.free[b], 0

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.cells, self.exits, self.age = ([None] * self.num_envs for _ in range(3))
        for i in range(self.num_envs):
            self._spawn(i)
        return np.array([self._look(i) for i in range(self.num_envs)], np.float32), {}

    def step(self, actions):
        reward, home, late = np.full(self.num_envs, -0.05, np.float32), *np.zeros((2, self.num_envs), bool)
        for i, action in enumerate(actions.tolist()):
            (r, c), (dr, dc) = self.cells[i], self.MOVES[action]
            if (r + dr, c + dc) in self.open:
                self.cells[i] = (r + dr, c + dc)
            self.age[i] += 1
            home[i], late[i] = self.cells[i] == self.exits[i], self.age[i] >= 60
            if home[i] or late[i]:
                reward[i] += home[i]
                self._spawn(i)
        return np.array([self._look(i) for i in range(self.num_envs)], np.float32), reward, home, late, {}


def make_net(inputs, outputs, width=512):
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, size, batch, gamma, dim, moves = 32, 64_000, 256, 0.95, 6, 4
    envs = MazeVec(n)
    net, target = make_net(dim, moves), make_net(dim, moves)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    states, after = np.zeros((2, size, dim), np.float32)
    taken, (rewards, ends) = np.zeros(size, np.int64), np.zeros((2, size), np.float32)
    obs, _ = envs.reset(seed=0)
    for step in range(1_000_000):
        with torch.no_grad():
            actions = net(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(n) < 0.1
        actions[explore] = rng.integers(0, moves, explore.sum())
        new, reward, end, late, _ = envs.step(actions)
        at = slice(step * n % size, step * n % size + n)
        states[at], taken[at], rewards[at], after[at], ends[at] = obs, actions, reward, new, end
        obs = new
        if step % 32 == 0:
            pick = rng.integers(0, min((step + 1) * n, size), batch)
            state, action, gain, nxt, stop = (torch.from_numpy(x[pick]) for x in (states, taken, rewards, after, ends))
            with torch.no_grad():
                goal = gain + gamma * (1 - stop) * target(nxt).max(1).values
            value = net(state).gather(1, action[:, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            target.load_state_dict(net.state_dict())
            print(step, float(reward.mean()))


if __name__ == "__main__":
    main()
