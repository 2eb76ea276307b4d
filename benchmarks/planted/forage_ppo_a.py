"""PPO on a foraging task with a scent map."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

VIEW = 7
CELL = 0.08
FOOD = 6
DIRECTIONS = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


class ForageEnv(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (VIEW * VIEW + 2,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.agent = self.np_random.random(2)
        self.food = self.np_random.random((FOOD, 2))
        self.time = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(VIEW * VIEW + 2, np.float32)
        obs[-2:] = self.agent
        x, y = self.agent.tolist()
        food = self.food.tolist()
        for row in range(VIEW):
            for col in range(VIEW):
                cell_x = x + (row - VIEW // 2) * CELL
                cell_y = y + (col - VIEW // 2) * CELL
                scent = 0.0
                for food_x, food_y in food:
                    far = (cell_x - food_x) ** 2 + (cell_y - food_y) ** 2
                    scent = max(scent, 1.0 - 20.0 * far)
                obs[row * VIEW + col] = scent
        return obs

    def step(self, action):
        self.time += 1
        self.agent = (self.agent + 0.05 * DIRECTIONS[action]).clip(0.0, 1.0)
        near = ((self.food - self.agent) ** 2).sum(1) < 0.003
        reward = -0.01
        if near.any():
            reward += float(near.sum())
            self.food[near] = self.np_random.random((int(near.sum()), 2))
        return self.observe(), reward, False, self.time >= 100, {}


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
    envs = SyncVectorEnv([ForageEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 4)
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
