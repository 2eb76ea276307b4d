"""DQN on a walled grid with many walkers."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
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


class Replay:
    def __init__(self, capacity, dim):
        self.states, self.after = np.zeros((2, capacity, dim), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards, self.ends = np.zeros((2, capacity), np.float32)
        self.capacity, self.head, self.filled = capacity, 0, 0

    def add(self, state, action, reward, after, end):
        i = self.head
        self.states[i], self.actions[i], self.rewards[i] = state, action, reward
        self.after[i], self.ends[i] = after, end
        self.head, self.filled = (i + 1) % self.capacity, min(self.filled + 1, self.capacity)

    def sample(self, rng, k):
        i = rng.integers(0, self.filled, k)
        parts = self.states[i], self.actions[i], self.rewards[i], self.after[i], self.ends[i]
        return [torch.from_numpy(x) for x in parts]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, gamma = 128, 0.97
    envs = GridVec(n)
    dim = envs.single_observation_space.shape[0]
    net, target = (nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 4)) for _ in range(2))
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    replay = Replay(64_000, dim)
    obs = torch.from_numpy(envs.reset(seed=0)[0])
    for step in range(2_000_000):
        with torch.no_grad():
            actions = net(obs).argmax(1)
        explore = torch.rand(n) < 0.1
        actions = torch.where(explore, torch.randint(0, 4, (n,)), actions)
        after, reward, home, late, _ = envs.step(actions.numpy())
        after, reward, end = torch.from_numpy(after), torch.from_numpy(reward), torch.from_numpy(home)
        for i in range(n):
            replay.add(obs[i].numpy(), actions[i].item(), reward[i].item(), after[i].numpy(), end[i].item())
        obs = after
        if step % 2 == 0:
            state, action, gain, nxt, stop = replay.sample(rng, 512)
            with torch.no_grad():
                goal = gain + gamma * (1 - stop) * target(nxt).max(1).values
            value = net(state).gather(1, action[:, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            target.load_state_dict(net.state_dict())
            print(step, reward.mean().item(), flush=True)


if __name__ == "__main__":
    main()
