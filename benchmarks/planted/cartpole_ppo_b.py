"""PPO on CartPole."""

import argparse

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class Policy(nn.Module):
    def __init__(self, inputs, moves):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, moves), nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return self.actor(h).log_softmax(1), self.critic(h).squeeze(1)


def advantages(rewards, values, overs, gamma=0.98, lam=0.95):
    out, last = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        alive = 1.0 - overs[t]
        last = out[t] = rewards[t] + gamma * values[t + 1] * alive - values[t] + gamma * lam * alive * last
    return torch.from_numpy(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minibatch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, horizon = 128, 8
    envs = gym.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")
    dim, moves = 4, 2
    policy = Policy(dim, moves)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-4, fused=True)
    states, taken = torch.zeros(horizon, n, dim), torch.zeros(horizon, n, dtype=torch.int64)
    chances, rewards, overs = torch.zeros(3, horizon, n)
    values = torch.zeros(horizon + 1, n)
    obs, _ = envs.reset(seed=0)
    for update in range(1_000_000):
        with torch.no_grad():
            for t in range(horizon):
                states[t] = torch.from_numpy(obs)
                logp, values[t] = policy(states[t])
                taken[t] = (logp - torch.empty_like(logp).exponential_().log()).argmax(1)
                chances[t] = logp.gather(1, taken[t, :, None]).squeeze(1)
                obs, reward, end, late, _ = envs.step(taken[t].numpy())
                rewards[t], overs[t] = torch.from_numpy(reward).float(), torch.from_numpy(end | late)
            values[horizon] = policy(torch.from_numpy(obs))[1]
        gains = advantages(rewards.numpy(), values.numpy(), overs.numpy())
        goals = (gains + values[:-1]).flatten()
        x, old, action, gain = states.flatten(0, 1), chances.flatten(), taken.flatten(), gains.flatten()
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        for _ in range(args.epochs):
            for pick in torch.randperm(n * horizon).split(args.minibatch_size):
                logp, value = policy(x[pick])
                ratio = (logp.gather(1, action[pick, None]).squeeze(1) - old[pick]).exp()
                surrogate = torch.min(ratio * gain[pick], ratio.clamp(0.8, 1.2) * gain[pick]).mean()
                loss = 0.5 * (goals[pick] - value).square().mean() - surrogate
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if update % 100 == 0:
            print(update, rewards.mean().item())


if __name__ == "__main__":
    main()
