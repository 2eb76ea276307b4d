"""Average-reward actor-critic on shop restocking."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class StockVec(gym.vector.VectorEnv):
    """Shops that pick one shelf to refill while customers buy at random."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

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


class Features(nn.Module):
    """Fixed random Fourier features for a linear critic."""

    def __init__(self, inputs, count):
        super().__init__()
        self.register_buffer("w", torch.randn(inputs, count))
        self.register_buffer("b", 6.28 * torch.rand(count))

    def forward(self, x):
        return torch.cos(x @ self.w + self.b)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, horizon = 256, 16
    envs = StockVec(n)
    dim, moves = envs.single_observation_space.shape[0], 17
    actor = nn.Sequential(nn.Linear(dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, moves))
    features, critic = Features(dim, 32), nn.Linear(32, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=5e-4, fused=True)
    states, taken = torch.zeros(horizon + 1, n, dim), torch.zeros(horizon, n, dtype=torch.int64)
    rewards = torch.zeros(horizon, n)
    rate = torch.zeros(())
    obs, _ = envs.reset(seed=0)
    for update in range(200_000):
        with torch.no_grad():
            for t in range(horizon):
                states[t] = torch.from_numpy(obs)
                logits = actor(states[t])
                taken[t] = (logits - torch.empty_like(logits).exponential_().log()).argmax(1)
                obs, reward, _, _, _ = envs.step(taken[t].numpy())
                rewards[t] = torch.from_numpy(reward)
            states[horizon] = torch.from_numpy(obs)
            phi = features(states.flatten(0, 1))
            nxt = critic(phi[n:]).squeeze(1)
        value = critic(phi[:-n]).squeeze(1)
        delta = rewards.flatten() - rate + nxt - value
        rate = rate + 0.01 * delta.mean()
        logp = actor(states[:-1].flatten(0, 1)).log_softmax(1)
        chosen = logp.gather(1, taken.flatten()[:, None]).squeeze(1)
        loss = 0.5 * delta.square().mean() - (chosen * delta.detach()).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        if update % 200 == 0:
            print(update, rate.item(), rewards.mean().item())


if __name__ == "__main__":
    main()
