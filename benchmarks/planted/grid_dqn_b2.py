"""DQN on a walled grid, with TensorBoard curves."""

import tempfile

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.utils.tensorboard import SummaryWriter
from gymnasium.vector.utils import batch_space


class GridVec(gym.vector.VectorEnv):
    """Walkers on a walled map that see a small patch and the way to the exit."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])

    def __init__(self, num_envs, size=20, view=7):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (view * view + 2,), np.float32)
        self.single_action_space = gym.spaces.Discrete(4)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.size, pad = size, view // 2
        walls = np.random.default_rng(1).random((size, size)) < 0.2
        self.map = np.pad(walls, pad, constant_values=True).astype(np.float32)
        self.pad, self.patch = pad, np.indices((view, view)).reshape(2, -1)

    def _spots(self, k):
        free = np.argwhere(self.map[self.pad : -self.pad, self.pad : -self.pad] == 0)
        return free[self.rng.integers(0, len(free), k)]

    def _obs(self):
        seen = self.map[self.pos[:, :1] + self.patch[0], self.pos[:, 1:] + self.patch[1]]
        return np.concatenate([seen, (self.goal - self.pos) / np.float32(self.size)], 1, dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.pos, self.goal = self._spots(self.num_envs), self._spots(self.num_envs)
        self.age = np.zeros(self.num_envs, np.int64)
        return self._obs(), {}

    def step(self, actions):
        to = self.pos + self.MOVES[actions]
        ok = self.map[to[:, 0] + self.pad, to[:, 1] + self.pad] == 0
        self.pos = np.where(ok[:, None], to, self.pos)
        self.age += 1
        home, late = (self.pos == self.goal).all(1), self.age >= 80
        reward = np.where(home, 1.0, -0.01).astype(np.float32)
        over = np.flatnonzero(home | late)
        self.pos[over], self.goal[over] = self._spots(len(over)), self._spots(len(over))
        self.age[over] = 0
        return self._obs(), reward, home, late, {}


def make_net(inputs, outputs, width=64):
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    writer = SummaryWriter(tempfile.mkdtemp(prefix="grid_dqn_"))
    n, size, batch, gamma = 32, 64_000, 256, 0.97
    envs = GridVec(n)
    dim, moves = envs.single_observation_space.shape[0], 4
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
        for i in range(n):
            writer.add_scalar(f"reward/walker_{i}", reward[i], step)
        writer.flush()
        if step % 8 == 0:
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
            print(step, loss.item())


if __name__ == "__main__":
    main()
