"""REINFORCE with a learned baseline for a rack of overhead cranes.

Every crane carries a swinging load that has to be brought over its drop point and held still there.
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn


class Metronome:
    """Keeps the caller to a given number of beats per second."""

    def __init__(self, hertz):
        self.period = 1.0 / hertz
        self.due = time.perf_counter()

    def wait(self):
        left = self.due - time.perf_counter()
        if left > 0:
            time.sleep(left)
        self.due = max(self.due, time.perf_counter() - self.period) + self.period


class CraneRack:
    control_hz = 250.0

    def __init__(self, cranes, length, seed):
        self.cranes = cranes
        self.length = length
        self.rng = np.random.default_rng(seed)
        self.dt = 0.04
        self.beat = Metronome(self.control_hz)

    def reset(self):
        n = self.cranes
        self.cart = self.rng.uniform(-1, 1, n)
        self.speed = np.zeros(n)
        self.swing = self.rng.normal(0, 0.1, n)
        self.rate = np.zeros(n)
        self.drop = self.rng.uniform(-1, 1, n)
        self.t = 0
        return self.observe()

    def observe(self):
        return np.stack([self.cart, self.speed, np.sin(self.swing), self.rate,
                         self.drop - self.cart, np.full(self.cranes, self.t / self.length)], 1).astype(np.float32)

    def step(self, force):
        self.beat.wait()
        push = np.clip(force, -1, 1)
        accel = 3.0 * push - 0.4 * self.speed
        turn = -9.8 * np.sin(self.swing) - accel * np.cos(self.swing) - 0.3 * self.rate
        self.speed = self.speed + self.dt * accel
        self.cart = np.clip(self.cart + self.dt * self.speed, -2, 2)
        self.rate = self.rate + self.dt * turn
        self.swing = self.swing + self.dt * self.rate
        self.t += 1
        miss = np.abs(self.cart + 0.5 * np.sin(self.swing) - self.drop)
        reward = np.exp(-3 * miss) - 0.05 * push ** 2 - 0.02 * np.abs(self.rate)
        return self.observe(), reward.astype(np.float32), self.t >= self.length


class Operator(nn.Module):
    def __init__(self, n_in=6, width=64):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(n_in, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.base = nn.Sequential(nn.Linear(n_in, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.tensor(-0.5))

    def act(self, obs):
        mu = self.mean(obs).squeeze(-1)
        return mu + self.log_std.exp() * torch.randn_like(mu)

    def logp(self, obs, action):
        mu = self.mean(obs).squeeze(-1)
        z = (action - mu) / self.log_std.exp()
        return -0.5 * z * z - self.log_std


def rollout(rack, operator):
    obs_list, act_list, rew_list = [], [], []
    obs, done = rack.reset(), False
    with torch.no_grad():
        while not done:
            x = torch.from_numpy(obs)
            action = operator.act(x)
            obs, reward, done = rack.step(action.numpy())
            obs_list.append(x)
            act_list.append(action)
            rew_list.append(reward)
    return torch.stack(obs_list), torch.stack(act_list), np.stack(rew_list)


def reward_to_go(rewards, gamma):
    out = np.zeros_like(rewards)
    run = np.zeros(rewards.shape[1], np.float32)
    for t in range(len(rewards) - 1, -1, -1):
        run = rewards[t] + gamma * run
        out[t] = run
    return torch.from_numpy(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cranes", type=int, default=16)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    rack = CraneRack(args.cranes, args.length, args.seed)
    operator = Operator()
    optimizer = torch.optim.Adam(operator.parameters(), lr=args.lr)
    env_steps = 0
    for episode in range(1, args.episodes + 1):
        obs, act, rew = rollout(rack, operator)
        env_steps += rew.size
        returns = reward_to_go(rew, args.gamma)
        guess = operator.base(obs).squeeze(-1)
        edge = returns - guess.detach()
        edge = (edge - edge.mean()) / (edge.std() + 1e-6)
        policy_loss = -(operator.logp(obs, act) * edge).mean() - 0.003 * operator.log_std
        value_loss = (guess - returns).pow(2).mean()
        optimizer.zero_grad()
        (policy_loss + 0.5 * value_loss).backward()
        nn.utils.clip_grad_norm_(operator.parameters(), 1.0)
        optimizer.step()
        if episode % 25 == 0:
            print(f"episode {episode}  steps {env_steps}  return {rew.sum(0).mean():.2f}", flush=True)


if __name__ == "__main__":
    main()
