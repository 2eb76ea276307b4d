"""PPO on a simple trading task."""

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

WINDOW = 8


def load_prices(rows=20000):
    rng = np.random.default_rng(7)
    close = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.002, rows)))
    frame = pd.DataFrame({"close": close, "volume": rng.lognormal(0.0, 0.3, rows)})
    frame["change"] = frame["close"].pct_change().fillna(0.0) * 100.0
    frame["trend"] = frame["change"].rolling(20, min_periods=1).mean()
    return frame


class TradingEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * WINDOW + 1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, prices):
        self.prices = prices
        self.features = prices[["change", "volume", "trend"]]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now = int(self.np_random.integers(WINDOW, len(self.prices) - 300))
        self.end = self.now + 256
        self.position = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(3 * WINDOW + 1, np.float32)
        obs[:-1] = self.features.iloc[self.now - WINDOW : self.now].to_numpy().ravel()
        obs[-1] = self.position
        return obs

    def step(self, action):
        fee = 0.02 * abs(action - 1 - self.position)
        self.position = int(action) - 1
        before = self.prices.iloc[self.now - 1]["close"]
        after = self.prices.iloc[self.now]["close"]
        reward = 100.0 * self.position * (after - before) / before - fee
        self.now += 1
        return self.observe(), reward, False, self.now >= self.end, {}


class Agent(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.heads = nn.Linear(64, actions + 1)

    def forward(self, obs):
        out = self.heads(self.body(obs))
        return out[:, :-1].log_softmax(1), out[:, -1]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    n, horizon, minibatch = 32, 32, 512
    prices = load_prices()
    envs = SyncVectorEnv([lambda: TradingEnv(prices)] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 3)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, foreach=True)
    states, actions = torch.zeros(horizon, n, size), torch.zeros(horizon, n, dtype=torch.int64)
    logps, values = torch.zeros(horizon, n), torch.zeros(horizon + 1, n)
    rewards, alive, advantages = np.zeros((3, horizon, n), np.float32)
    obs = torch.from_numpy(envs.reset(seed=1)[0])
    for _ in range(100000):
        for t in range(horizon):
            with torch.no_grad():
                logp, values[t] = agent(obs)
                action = torch.multinomial(logp.exp(), 1)
            states[t], actions[t], logps[t] = obs, action[:, 0], logp.gather(1, action)[:, 0]
            new_obs, rewards[t], term, trunc, _ = envs.step(action[:, 0].numpy())
            alive[t] = ~(term | trunc)
            obs = torch.from_numpy(new_obs)
        with torch.no_grad():
            values[horizon] = agent(obs)[1]
        value, running = values.numpy(), np.zeros(n, np.float32)
        for t in reversed(range(horizon)):
            delta = rewards[t] + 0.99 * alive[t] * value[t + 1] - value[t]
            running = delta + 0.99 * 0.95 * alive[t] * running
            advantages[t] = running
        gains = torch.from_numpy(advantages).flatten()
        returns = gains + values[:-1].flatten()
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        flat_states, flat_actions, flat_logps = states.flatten(0, 1), actions.flatten(), logps.flatten()
        for rows in [part for _ in range(2) for part in torch.randperm(horizon * n).split(minibatch)]:
            logp, value = agent(flat_states[rows])
            ratio = (logp.gather(1, flat_actions[rows, None])[:, 0] - flat_logps[rows]).exp()
            policy_loss = -torch.minimum(ratio * gains[rows], ratio.clamp(0.8, 1.2) * gains[rows]).mean()
            entropy = -(logp.exp() * logp).sum(1).mean()
            loss = policy_loss + 0.5 * (value - returns[rows]).square().mean() - 0.01 * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5, foreach=True)
            optimizer.step()


if __name__ == "__main__":
    main()
