"""PPO on a planar robot arm that reaches for a point."""

import time

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

JOINTS = 3
SUBSTEPS = 25


class RobotArmEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * JOINTS + 2,), np.float32)
    action_space = gym.spaces.Discrete(2 * JOINTS + 1)
    metadata = {"control_hz": 5000}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle = self.np_random.uniform(-1.0, 1.0, JOINTS)
        self.speed = np.zeros(JOINTS)
        self.goal = self.np_random.uniform(-2.0, 2.0, 2)
        self.time = 0
        self.gap = self.distance()
        return self.observe(), {}

    def distance(self):
        heading = self.angle.cumsum()
        x, y = np.cos(heading).sum(), np.sin(heading).sum()
        return float(np.hypot(x - self.goal[0], y - self.goal[1]))

    def observe(self):
        return np.concatenate([np.cos(self.angle), np.sin(self.angle), self.speed, self.goal], dtype=np.float32)

    def advance(self, torque):
        for _ in range(SUBSTEPS):
            pull = torque - 0.4 * self.speed - 0.8 * np.sin(self.angle)
            self.speed = self.speed + 0.02 * pull
            self.angle = self.angle + 0.02 * self.speed
        time.sleep(1.0 / self.metadata["control_hz"])

    def step(self, action):
        self.time += 1
        torque = np.zeros(JOINTS)
        if action:
            torque[(action - 1) // 2] = 2.0 if action % 2 else -2.0
        self.advance(torque)
        before, self.gap = self.gap, self.distance()
        reward = before - self.gap + (1.0 if self.gap < 0.15 else 0.0)
        return self.observe(), reward, self.gap < 0.15, self.time >= 200, {}


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
    n, horizon, minibatch = 16, 32, 256
    envs = SyncVectorEnv([RobotArmEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 7)
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
