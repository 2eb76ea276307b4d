"""A2C on a rover with range sensors."""

import argparse

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class RoverEnv(gym.Env):
    """A rover that senses round rocks along 24 rays and drives to a flag."""

    def __init__(self, rays=24, rocks=12):
        self.observation_space = gym.spaces.Box(-10, 10, (rays + 3,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.angles = np.linspace(-2, 2, rays, dtype=np.float32)
        self.rocks = np.random.default_rng(3).uniform(-4, 4, (rocks, 2)).astype(np.float32)

    def _obs(self):
        look = self.angles + self.heading
        beams = np.stack([np.cos(look), np.sin(look)])
        gap = self.rocks - self.pos
        along = gap @ beams
        aside = np.square(gap).sum(1)[:, None] - np.square(along)
        near = np.where((along > 0) & (aside < 0.2), along, 5.0).min(0)
        to = self.flag - self.pos
        turn = np.arctan2(to[1], to[0]) - self.heading
        return np.concatenate([near / 5, (np.hypot(to[0], to[1]), np.cos(turn), np.sin(turn))], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos, self.flag = self.np_random.uniform(-4, 4, (2, 2)).astype(np.float32)
        self.heading, self.age = 0.0, 0
        return self._obs(), {}

    def step(self, action):
        self.heading += 0.3 * (int(action) - 1)
        before = np.square(self.flag - self.pos).sum()
        self.pos = self.pos + np.array([np.cos(self.heading), np.sin(self.heading)], np.float32) * 0.2
        gap = np.square(self.flag - self.pos).sum()
        self.age += 1
        return self._obs(), float(before - gap), bool(gap < 0.1), self.age >= 150, {}


class Policy(nn.Module):
    def __init__(self, inputs, moves):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, moves), nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return self.actor(h).log_softmax(1), self.critic(h).squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=1)
    parser.add_argument("--rollout", type=int, default=512, help="transitions per update")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, gamma = args.num_envs, 0.98
    horizon = args.rollout // n
    envs = gym.vector.SyncVectorEnv([RoverEnv] * n)
    dim, moves = envs.single_observation_space.shape[0], 3
    policy = Policy(dim, moves)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3, fused=True)
    states, taken = np.zeros((horizon, n, dim), np.float32), np.zeros((horizon, n), np.int64)
    rewards, overs = np.zeros((2, horizon, n), np.float32)
    obs, _ = envs.reset(seed=0)
    for update in range(1_000_000):
        for t in range(horizon):
            with torch.no_grad():
                logp, _ = policy(torch.from_numpy(obs))
                actions = (logp - torch.empty_like(logp).exponential_().log()).argmax(1).numpy()
            states[t], taken[t] = obs, actions
            obs, rewards[t], end, late, _ = envs.step(actions)
            overs[t] = end | late
        with torch.no_grad():
            ret = policy(torch.from_numpy(obs))[1].numpy()
        returns = np.zeros_like(rewards)
        for t in reversed(range(horizon)):
            ret = returns[t] = rewards[t] + gamma * ret * (1 - overs[t])
        goal = torch.from_numpy(returns).flatten()
        logp, value = policy(torch.from_numpy(states).flatten(0, 1))
        advantage = (goal - value).detach()
        chosen = logp.gather(1, torch.from_numpy(taken).reshape(-1, 1)).squeeze(1)
        loss = 0.5 * (goal - value).square().mean() - (chosen * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(update, float(returns.mean()))


if __name__ == "__main__":
    main()
