"""A2C on a small balancing task."""

import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class BalanceEnv(gym.Env):
    """A cart on a rail that keeps a ball in the middle of a tilting plate."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-10, 10, (4,), np.float32)
        self.action_space = gym.spaces.Discrete(3)

    def _obs(self):
        return np.array((self.x, self.v, self.tilt, self.wind), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.tilt, self.age = float(self.np_random.uniform(-0.5, 0.5)), 0.0, 0.0, 0
        self.wind = float(self.np_random.normal(0, 0.1))
        return self._obs(), {}

    def step(self, action):
        self.tilt = max(-0.5, min(0.5, self.tilt + 0.1 * (action - 1)))
        self.wind = 0.95 * self.wind + float(self.np_random.normal(0, 0.03))
        self.v += 0.05 * (9.8 * math.sin(self.tilt) + self.wind)
        self.x += 0.05 * self.v
        self.age += 1
        fell, late = abs(self.x) > 2, self.age >= 200
        return self._obs(), 1.0 - abs(self.x), fell, late, {}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, horizon, gamma = 16, 32, 0.99
    envs = [BalanceEnv() for _ in range(n)]
    obs = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    params = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(params, lr=1e-3, fused=True)
    states = np.zeros((horizon, n, 4), np.float32)
    taken = np.zeros((horizon, n), np.int64)
    rewards, overs = np.zeros((2, horizon, n), np.float32)
    logits = np.zeros((n, 3), np.float32)
    for update in range(200_000):
        for t in range(horizon):
            with torch.no_grad():
                for i in range(n):
                    logits[i] = actor(torch.from_numpy(obs[i : i + 1])).numpy()[0]
            actions = (logits + rng.gumbel(size=logits.shape)).argmax(1)
            states[t], taken[t] = obs, actions
            for i, env in enumerate(envs):
                obs[i], rewards[t, i], ended, cut, _ = env.step(int(actions[i]))
                overs[t, i] = ended or cut
                if ended or cut:
                    obs[i] = env.reset()[0]
        with torch.no_grad():
            ret = critic(torch.from_numpy(obs)).squeeze(1).numpy()
        returns = np.zeros_like(rewards)
        for t in reversed(range(horizon)):
            ret = returns[t] = rewards[t] + gamma * ret * (1 - overs[t])
        x = torch.from_numpy(states).reshape(-1, 4)
        target = torch.from_numpy(returns).reshape(-1)
        value = critic(x).squeeze(1)
        logp = actor(x).log_softmax(1)
        gain = (target - value).detach()
        chosen = logp.gather(1, torch.from_numpy(taken).reshape(-1, 1)).squeeze(1)
        entropy = -(logp.exp() * logp).sum(1).mean()
        loss = -(gain * chosen).mean() + 0.5 * (target - value).square().mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 0.5)
        optimizer.step()
        if update % 500 == 0:
            print(update, float(returns.mean()))


if __name__ == "__main__":
    main()
