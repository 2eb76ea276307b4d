"""Self-imitation policy gradient on shop restocking."""

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


class Policy(nn.Module):
    def __init__(self, inputs, moves):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, moves), nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return self.actor(h).log_softmax(1), self.critic(h).squeeze(1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 100_000
    torch._dynamo.config.accumulated_recompile_limit = 100_000
    n, horizon, gamma = 256, 96, 0.97
    envs = StockVec(n)
    dim, moves = envs.single_observation_space.shape[0], 17
    policy = Policy(dim, moves)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-4, fused=True)
    states, taken = torch.zeros(horizon, n, dim), torch.zeros(horizon, n, dtype=torch.int64)
    rewards, overs, returns = np.zeros((3, horizon, n), np.float32)
    values = torch.zeros(horizon, n)
    obs, _ = envs.reset(seed=0)

    def imitation_loss(x, action, goal):
        logp, value = policy(x)
        gain = (goal - value).detach().clamp(min=0)
        chosen = logp.gather(1, action[:, None]).squeeze(1)
        return 0.5 * (goal - value).square().mean() - (gain * chosen).mean()

    imitation_loss = torch.compile(imitation_loss, backend="aot_eager", dynamic=False)
    for update in range(100_000):
        with torch.no_grad():
            for t in range(horizon):
                states[t] = torch.from_numpy(obs)
                logp, values[t] = policy(states[t])
                taken[t] = (logp - torch.empty_like(logp).exponential_().log()).argmax(1)
                obs, rewards[t], _, overs[t], _ = envs.step(taken[t].numpy())
            ret = policy(torch.from_numpy(obs))[1].numpy()
        for t in reversed(range(horizon)):
            ret = returns[t] = rewards[t] + gamma * ret * (1 - overs[t])
        goal = torch.from_numpy(returns)
        better = goal > values
        loss = imitation_loss(states[better], taken[better], goal[better])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 20 == 0:
            print(update, float(rewards.mean()))


if __name__ == "__main__":
    main()
