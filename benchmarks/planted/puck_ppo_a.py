"""PPO on pushing a puck to a goal."""

from collections import deque
from functools import partial

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

FRAME = 64
GREEN, BLACK, RED = (60, 180, 75), (30, 30, 30), (220, 50, 50)
PUSH = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])


class PuckEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.frames = deque(maxlen=30)
        self.grid_y, self.grid_x = np.mgrid[0:FRAME, 0:FRAME].astype(np.float32) / FRAME

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.agent, self.puck, self.goal = self.np_random.uniform(0.1, 0.9, (3, 2))
        self.speed, self.time = np.zeros(2), 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(8, np.float32)
        obs[0:2], obs[2:4], obs[4:6], obs[6:8] = self.agent, self.puck, self.goal, self.speed
        return obs

    def render(self):
        frame = np.full((FRAME, FRAME, 3), 235, np.uint8)
        for (x, y), colour in ((self.goal, GREEN), (self.puck, BLACK), (self.agent, RED)):
            frame[(self.grid_x - x) ** 2 + (self.grid_y - y) ** 2 < 0.003] = colour
        return frame

    def step(self, action):
        self.time += 1
        self.agent = (self.agent + 0.04 * PUSH[action]).clip(0.0, 1.0)
        gap = self.puck - self.agent
        if gap @ gap < 0.006:
            self.speed = self.speed + 0.3 * gap
        self.puck = (self.puck + self.speed).clip(0.0, 1.0)
        self.speed = 0.9 * self.speed
        miss = self.puck - self.goal
        left, far = float(miss @ miss), float(gap @ gap)
        if self.render_mode == "rgb_array":
            self.frames.append(self.render())
        reward = 1.0 if left < 0.01 else -0.1 * left - 0.02 * far
        return self.observe(), reward, left < 0.01, self.time >= 150, {}


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
    make = partial(PuckEnv, render_mode="rgb_array")
    envs = SyncVectorEnv([make] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 5)
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
