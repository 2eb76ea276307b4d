"""PPO on balancing a pole on a cart."""

import math

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import nn


class CartEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.speed, self.angle, self.spin = self.np_random.uniform(-0.05, 0.05, 4).tolist()
        self.time = 0
        return self.observe(), {}

    def observe(self):
        return np.array((self.x, self.speed, self.angle, self.spin), np.float32)

    def step(self, action):
        self.time += 1
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        push = (force + 0.05 * self.spin**2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        self.x += 0.02 * self.speed
        self.speed += 0.02 * (push - 0.05 * turn * cos / 1.1)
        self.angle += 0.02 * self.spin
        self.spin += 0.02 * turn
        fell = abs(self.x) > 2.4 or abs(self.angle) > 0.21
        return self.observe(), 1.0, fell, self.time >= 500, {}


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
    torch.manual_seed(5)
    n, horizon, minibatch = 16, 64, 512
    envs = AsyncVectorEnv([CartEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 2)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, foreach=True)
    states, actions = torch.zeros(horizon, n, size), torch.zeros(horizon, n, dtype=torch.int64)
    logps, values = torch.zeros(horizon, n), torch.zeros(horizon + 1, n)
    rewards, alive, advantages = np.zeros((3, horizon, n), np.float32)
    obs = torch.from_numpy(envs.reset(seed=5)[0])
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
