"""PPO on leading a growing flock."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)


class SwarmEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (13,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.leader = np.full(2, 0.5, np.float32)
        self.birds = self.np_random.random((10, 2), np.float32)
        self.speed = np.zeros((10, 2), np.float32)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(13, np.float32)
        obs[:2], obs[2:4], obs[4:6] = self.leader, self.birds.mean(0), self.speed.mean(0)
        obs[6:12] = self.birds[:3].ravel()
        obs[12] = len(self.birds) / 100.0
        return obs

    def step(self, action):
        self.time += 1
        if self.time % 10 == 0:
            self.birds = np.vstack([self.birds, self.np_random.random((1, 2), np.float32)])
            self.speed = np.vstack([self.speed, np.zeros((1, 2), np.float32)])
        self.leader = (self.leader + 0.02 * MOVES[action]).clip(0.0, 1.0)
        gaps = self.birds[:, None] - self.birds[None]
        near = np.einsum("ijk,ijk->ij", gaps, gaps) + 0.002
        apart = np.einsum("ijk,ij->ik", gaps, 1.0 / near) / len(self.birds)
        self.speed = 0.9 * self.speed + 0.002 * apart + 0.01 * (self.leader - self.birds)
        self.birds = (self.birds + self.speed).clip(0.0, 1.0)
        off = self.birds.mean(0) - 0.25
        return self.observe(), -float(off @ off), False, self.time >= 800, {}


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
    torch.manual_seed(11)
    n, horizon, minibatch = 32, 32, 512
    envs = SyncVectorEnv([SwarmEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 5)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, foreach=True)
    states, actions = torch.zeros(horizon, n, size), torch.zeros(horizon, n, dtype=torch.int64)
    logps, values = torch.zeros(horizon, n), torch.zeros(horizon + 1, n)
    rewards, alive, advantages = np.zeros((3, horizon, n), np.float32)
    obs = torch.from_numpy(envs.reset(seed=11)[0])
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
