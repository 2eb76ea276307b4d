"""PPO with a small transformer on shop restocking."""

import argparse

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class StockVec(gym.vector.VectorEnv):
    """Shops that pick one shelf to refill while customers buy at random."""

    def __init__(self, num_envs, items=16):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * items,), np.float32)
        self.single_action_space = gym.spaces.Discrete(items + 1)
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
        rows = np.flatnonzero(actions < self.items)
        self.stock[rows, actions[rows]] += 8
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
    def __init__(self, items, moves, width=64):
        super().__init__()
        self.items = items
        self.embed = nn.Linear(items, width)
        self.kind = nn.Parameter(0.02 * torch.randn(2, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.actor, self.critic = nn.Linear(width, moves), nn.Linear(width, 1)

    def forward(self, x):
        tokens = self.embed(x.unflatten(1, (2, self.items))) + self.kind
        h = self.body(tokens).mean(1)
        return self.actor(h).log_softmax(1), self.critic(h).squeeze(1)


def advantages(rewards, values, overs, gamma=0.98, lam=0.95):
    out, last = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        alive = 1.0 - overs[t]
        last = out[t] = rewards[t] + gamma * values[t + 1] * alive - values[t] + gamma * lam * alive * last
    return torch.from_numpy(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minibatch-size", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, horizon, dim, moves = 32, 8, 16, 17
    envs = StockVec(n, dim)
    policy = Policy(dim, moves)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-4, fused=True)
    states, taken = torch.zeros(horizon, n, 2 * dim), torch.zeros(horizon, n, dtype=torch.int64)
    chances, rewards, overs = torch.zeros(3, horizon, n)
    values = torch.zeros(horizon + 1, n)
    obs, _ = envs.reset(seed=0)
    for update in range(1_000_000):
        with torch.no_grad():
            for t in range(horizon):
                states[t] = torch.from_numpy(obs)
                logp, values[t] = policy(states[t])
                taken[t] = (logp - torch.empty_like(logp).exponential_().log()).argmax(1)
                chances[t] = logp.gather(1, taken[t, :, None]).squeeze(1)
                obs, reward, end, late, _ = envs.step(taken[t].numpy())
                rewards[t], overs[t] = torch.from_numpy(reward), torch.from_numpy(end | late)
            values[horizon] = policy(torch.from_numpy(obs))[1]
        gains = advantages(rewards.numpy(), values.numpy(), overs.numpy())
        goals = (gains + values[:-1]).flatten()
        x, old, action, gain = states.flatten(0, 1), chances.flatten(), taken.flatten(), gains.flatten()
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        for _ in range(10):
            for pick in torch.randperm(n * horizon).split(args.minibatch_size):
                logp, value = policy(x[pick])
                ratio = (logp.gather(1, action[pick, None]).squeeze(1) - old[pick]).exp()
                surrogate = torch.min(ratio * gain[pick], ratio.clamp(0.8, 1.2) * gain[pick]).mean()
                loss = 0.5 * (goals[pick] - value).square().mean() - surrogate
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if update % 100 == 0:
            print(update, rewards.mean().item())


if __name__ == "__main__":
    main()
