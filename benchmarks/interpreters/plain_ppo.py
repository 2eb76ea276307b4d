"""PPO on CartPole as one file, for any torch since 1.13 and any gym or Gymnasium: `python plain_ppo.py STEPS`.

Prints its own count of environment steps and a hash of the trained weights.
"""

import hashlib
import json
import random
import sys

import numpy as np
import torch
from torch import nn

try:
    import gymnasium as gym
except ImportError:
    import gym

ROLLOUT, EPOCHS, MINIBATCHES, GAMMA, LAMBDA = 256, 4, 4, 0.99, 0.95


def reset(env, seed=None):
    """The observation, by the old interface and the new."""
    if tuple(map(int, gym.__version__.split(".")[:2])) < (0, 26):
        if seed is not None:
            env.seed(seed)
        return env.reset()
    return env.reset(seed=seed)[0]


def step(env, action):
    result = env.step(action)
    if len(result) == 4:
        return result[:3]
    observation, reward, terminated, truncated, _ = result
    return observation, reward, terminated or truncated


class Agent(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations):
        return torch.distributions.Categorical(logits=self.actor(observations)), self.critic(observations).squeeze(-1)


def collect(env, agent, observation):
    rows, count = [], 0
    for _ in range(ROLLOUT):
        with torch.no_grad():
            distribution, value = agent(torch.as_tensor(observation, dtype=torch.float32))
            action = distribution.sample()
        following, reward, done = step(env, int(action))
        rows.append((observation, int(action), float(distribution.log_prob(action)), float(value), float(reward), done))
        observation = reset(env) if done else following
        count += 1
    return rows, observation, count


def learn(agent, optimizer, rows, last_value):
    observations = torch.as_tensor(np.array([row[0] for row in rows]), dtype=torch.float32)
    actions = torch.tensor([row[1] for row in rows])
    old = torch.tensor([row[2] for row in rows])
    advantages, running, following = [0.0] * len(rows), 0.0, last_value
    for t in reversed(range(len(rows))):
        _, _, _, value, reward, done = rows[t]
        alive = 1.0 - float(done)
        running = reward + GAMMA * following * alive - value + GAMMA * LAMBDA * alive * running
        advantages[t], following = running, value
    advantage = torch.tensor(advantages)
    returns = advantage + torch.tensor([row[3] for row in rows])
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(rows)).chunk(MINIBATCHES):
            distribution, value = agent(observations[batch])
            ratio = (distribution.log_prob(actions[batch]) - old[batch]).exp()
            gain = torch.min(ratio * advantage[batch], ratio.clamp(0.8, 1.2) * advantage[batch]).mean()
            loss = (value - returns[batch]).pow(2).mean() - gain - 0.01 * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main():
    total = int(sys.argv[1])
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = gym.make("CartPole-v1")
    agent = Agent(env.observation_space.shape[0], env.action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
    observation, steps = reset(env, seed=0), 0
    while steps < total:
        rows, observation, count = collect(env, agent, observation)
        steps += count
        with torch.no_grad():
            last_value = float(agent(torch.as_tensor(observation, dtype=torch.float32))[1])
        learn(agent, optimizer, rows, last_value)
    weights = b"".join(value.numpy().tobytes() for value in agent.state_dict().values())
    print(json.dumps({"env_steps": steps, "weights": hashlib.sha256(weights).hexdigest()}))


if __name__ == "__main__":
    main()
