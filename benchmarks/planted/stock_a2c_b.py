"""A2C with one categorical head per shelf on shop restocking."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical
from gymnasium.vector.utils import batch_space


class StockVec(gym.vector.VectorEnv):
    """Shops that set the order of each shelf while customers buy at random."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs, items=8):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * items,), np.float32)
        self.single_action_space = gym.spaces.MultiDiscrete([4] * items)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.items = items

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.stock = self.rng.uniform(2, 8, (self.num_envs, self.items)).astype(np.float32)
        self.demand = self.rng.uniform(0.1, 0.9, self.stock.shape).astype(np.float32)
        self.day = self.rng.integers(0, 200, self.num_envs)
        return np.concatenate([self.stock / 10, self.demand], 1), {}

    def step(self, actions):
        self.stock += actions
        want = self.rng.poisson(self.demand).astype(np.float32)
        sold = np.minimum(want, self.stock)
        self.stock -= sold
        reward = sold.sum(1) - 0.02 * self.stock.sum(1)
        self.day += 1
        over = self.day >= 200
        self.stock[over], self.day[over] = 5, 0
        obs = np.concatenate([self.stock / 10, self.demand], 1)
        return obs, reward, np.zeros(self.num_envs, bool), over, {}


class Policy(nn.Module):
    def __init__(self, inputs, shelves, levels):
        super().__init__()
        self.shape = (levels, shelves)
        self.body = nn.Sequential(nn.Linear(inputs, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, shelves * levels), nn.Linear(32, 1)

    def forward(self, x):
        h = self.body(x)
        return self.actor(h).unflatten(1, self.shape).softmax(1).unbind(2), self.critic(h).squeeze(1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, horizon, gamma, shelves = 512, 8, 0.99, 8
    envs = StockVec(n, shelves)
    dim = envs.single_observation_space.shape[0]
    policy = Policy(dim, shelves, 4)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3, fused=True)
    states = torch.zeros(horizon, n, dim)
    taken = torch.zeros(horizon, n, shelves, dtype=torch.int64)
    chances, rewards, overs = torch.zeros(3, horizon, n)
    obs, _ = envs.reset(seed=0)
    for update in range(500_000):
        for t in range(horizon):
            with torch.no_grad():
                probs, _ = policy(torch.from_numpy(obs))
                heads = [Categorical(probs=x) for x in probs]
                actions = [head.sample() for head in heads]
                chances[t] = sum(head.log_prob(a) for head, a in zip(heads, actions))
            states[t], taken[t] = torch.from_numpy(obs), torch.stack(actions, 1)
            obs, reward, _, late, _ = envs.step(taken[t].numpy())
            rewards[t], overs[t] = torch.from_numpy(reward), torch.from_numpy(late)
        with torch.no_grad():
            ret = policy(torch.from_numpy(obs))[1].numpy()
        returns, gains, ends = np.zeros((horizon, n), np.float32), rewards.numpy(), overs.numpy()
        for t in reversed(range(horizon)):
            ret = returns[t] = gains[t] + gamma * ret * (1 - ends[t])
        goal = torch.from_numpy(returns).reshape(-1)
        probs, value = policy(states.reshape(-1, dim))
        heads = [Categorical(probs=x) for x in probs]
        logp = sum(head.log_prob(a) for head, a in zip(heads, taken.reshape(-1, shelves).unbind(1)))
        entropy = sum(head.entropy() for head in heads).mean()
        advantage = (goal - value).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        ratio = (logp - chances.reshape(-1)).exp().clamp(0, 2)
        loss = -(ratio * advantage).mean() + 0.5 * (goal - value).square().mean() - 0.001 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(update, float(gains.mean()))


if __name__ == "__main__":
    main()
