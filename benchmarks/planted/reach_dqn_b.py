"""DQN with a residual network on point robots."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class ReachVec(gym.vector.VectorEnv):
    """Point robots that drive to a target past a field of posts."""

    def __init__(self, num_envs, posts=2):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (6 + posts,), np.float32)
        self.single_action_space = gym.spaces.Discrete(9)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rng = np.random.default_rng(0)
        self.posts = self.rng.uniform(-1, 1, (posts, 2)).astype(np.float32)

    def _place(self, mask):
        k = int(mask.sum())
        self.pos[mask] = self.rng.uniform(-1, 1, (k, 2))
        self.goal[mask] = self.rng.uniform(-1, 1, (k, 2))
        self.vel[mask] = 0
        self.age[mask] = 0

    def _obs(self):
        gap = self.pos[:, None, :] - self.posts
        near = np.exp(-4 * np.sqrt(np.square(gap).sum(-1)))
        return np.concatenate([self.pos, self.vel, self.goal, near], 1)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.pos, self.vel, self.goal = np.zeros((3, self.num_envs, 2), np.float32)
        self.age = np.zeros(self.num_envs, np.int64)
        self._place(np.ones(self.num_envs, bool))
        return self._obs(), {}

    def step(self, actions):
        push = np.stack([actions % 3 - 1, actions // 3 - 1], 1).astype(np.float32)
        self.vel = 0.9 * self.vel + 0.05 * push
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5)
        self.age += 1
        dist = np.sqrt(np.square(self.pos - self.goal).sum(1))
        hit, late = dist < 0.1, self.age >= 100
        reward = (hit * 5.0 - dist).astype(np.float32)
        self._place(hit | late)
        return self._obs(), reward, hit, late, {}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.silu(self.mix(self.norm(x)))


def make_net(inputs, outputs, width=32, depth=16):
    return nn.Sequential(nn.Linear(inputs, width), *[Block(width) for _ in range(depth)], nn.Linear(width, outputs))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, capacity, batch, gamma, span = 1024, 200, 512, 0.98, 32
    envs = ReachVec(n)
    dim, moves = envs.single_observation_space.shape[0], 9
    net, target = make_net(dim, moves), make_net(dim, moves)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    states, taken = torch.zeros(capacity + 1, n, dim), torch.zeros(capacity + 1, n, dtype=torch.int64)
    rewards, ends = torch.zeros(2, capacity + 1, n)
    obs, _ = envs.reset(seed=0)
    head, filled = 0, 0
    for round_ in range(200_000):
        scores = []
        for _ in range(span):
            q = net(torch.from_numpy(obs))
            scores.append(q.max(1).values)
            actions = q.argmax(1).numpy()
            explore = rng.random(n) < 0.1
            actions[explore] = rng.integers(0, moves, explore.sum())
            states[head], taken[head] = torch.from_numpy(obs), torch.from_numpy(actions)
            obs, reward, hit, late, _ = envs.step(actions)
            rewards[head], ends[head] = torch.from_numpy(reward), torch.from_numpy(hit | late)
            head, filled = (head + 1) % capacity, min(filled + 1, capacity)
        states[head] = torch.from_numpy(obs)
        mean_score = torch.stack(scores).mean().item()
        row, col = torch.randint(0, filled - 1, (batch,)), torch.randint(0, n, (batch,))
        with torch.no_grad():
            best = target(states[row + 1, col]).max(1).values
            goal = rewards[row, col] + gamma * (1 - ends[row, col]) * best
        value = net(states[row, col]).gather(1, taken[row, col, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if round_ % 20 == 0:
            target.load_state_dict(net.state_dict())
            print(round_, mean_score, loss.item())


if __name__ == "__main__":
    main()
