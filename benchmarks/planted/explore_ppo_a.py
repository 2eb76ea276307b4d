"""PPO on exploring a room with a novelty reward."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

LIMIT = 100
MOVES = 0.03 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)


class ExploreEnv(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (12,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self):
        self.visited = np.zeros((0, 2), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(0.0, 1.0, 2).astype(np.float32)
        self.walls = self.np_random.uniform(0.2, 0.8, (4, 2)).astype(np.float32)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        obs = np.empty(12, np.float32)
        obs[:8] = (self.walls - self.place).ravel()
        obs[8:10] = self.place
        obs[10:] = self.time / LIMIT, 0.0
        return obs

    def novelty(self):
        if len(self.visited) == 0:
            return 0.1
        gaps = self.visited - self.place
        return min(float(np.einsum("ij,ij->i", gaps, gaps).min()) ** 0.5, 0.1)

    def step(self, action):
        self.time += 1
        place = (self.place + MOVES[action]).clip(0.0, 1.0)
        if np.abs(self.walls - place).max(1).min() > 0.06:
            self.place = place
        reward = 10.0 * self.novelty()
        self.visited = np.concatenate([self.visited, self.place[None]])
        return self.observe(), reward, False, self.time >= LIMIT, {}


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
    torch.manual_seed(9)
    n, horizon, minibatch = 32, 32, 512
    envs = SyncVectorEnv([ExploreEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, 4)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, foreach=True)
    states, actions = torch.zeros(horizon, n, size), torch.zeros(horizon, n, dtype=torch.int64)
    logps, values = torch.zeros(horizon, n), torch.zeros(horizon + 1, n)
    rewards, alive, advantages = np.zeros((3, horizon, n), np.float32)
    obs = torch.from_numpy(envs.reset(seed=9)[0])
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
