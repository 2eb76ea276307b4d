"""A2C with a squashed Gaussian policy for planar arms that reach for a moving target."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn


class Arms:
    """Two-link arms, all stepped at once."""

    def __init__(self, count, seed):
        self.count = count
        self.rng = np.random.default_rng(seed)
        self.q = self.rng.uniform(-np.pi, np.pi, (count, 2))
        self.dq = np.zeros((count, 2))
        self.goal = self._goals(count)
        self.clock = self.rng.integers(0, 100, count)

    def _goals(self, k):
        r = self.rng.uniform(0.4, 1.7, k)
        a = self.rng.uniform(-np.pi, np.pi, k)
        return np.stack([r * np.cos(a), r * np.sin(a)], 1)

    def tip(self):
        a, b = self.q[:, 0], self.q[:, 0] + self.q[:, 1]
        return np.stack([np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)], 1)

    def observe(self):
        return np.concatenate([np.sin(self.q), np.cos(self.q), self.dq, self.goal, self.goal - self.tip()],
                              1).astype(np.float32)

    def step(self, torque):
        self.dq = 0.95 * self.dq + 0.1 * (4.0 * torque - 0.2 * self.dq)
        self.q = self.q + 0.05 * self.dq
        self.clock += 1
        miss = np.linalg.norm(self.goal - self.tip(), axis=1)
        reward = np.exp(-2 * miss) - 0.02 * (torque ** 2).sum(1)
        done = self.clock >= 100
        if done.any():
            k = int(done.sum())
            self.q[done] = self.rng.uniform(-np.pi, np.pi, (k, 2))
            self.dq[done] = 0
            self.goal[done] = self._goals(k)
            self.clock[done] = 0
        return self.observe(), reward.astype(np.float32), done.astype(np.float32)


class SquashedGaussian(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mu = nn.Linear(64, n_act)
        self.log_std = nn.Linear(64, n_act)
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def stats(self, obs):
        h = self.actor(obs)
        return self.mu(h), -1.0 + torch.tanh(self.log_std(h))

    def sample(self, obs):
        mu, log_std = self.stats(obs)
        return mu + log_std.exp() * torch.randn_like(mu)

    def log_prob(self, obs, raw):
        mu, log_std = self.stats(obs)
        z = (raw - mu) * (-log_std).exp()
        gauss = -0.5 * z.pow(2) - log_std - 0.919
        squash = 2 * (0.693 - raw - nn.functional.softplus(-2 * raw))
        return (gauss - squash).sum(-1), (log_std + 1.419).sum(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--arms", type=int, default=32)
    ap.add_argument("--unroll", type=int, default=8)
    ap.add_argument("--updates", type=int, default=400_000)
    ap.add_argument("--gamma", type=float, default=0.97)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--entropy", type=float, default=0.002)
    ap.add_argument("--seed", type=int, default=17)
    ap.add_argument("--debug", action=argparse.BooleanOptionalAction, default=True)
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    torch.autograd.set_detect_anomaly(args.debug)

    arms = Arms(args.arms, args.seed)
    net = SquashedGaussian(10, 2)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    T, N = args.unroll, args.arms
    all_obs = torch.zeros(T, N, 10)
    all_raw = torch.zeros(T, N, 2)
    rewards = np.zeros((T, N), np.float32)
    ends = np.zeros((T, N), np.float32)
    obs = torch.from_numpy(arms.observe())
    frames, smooth = 0, 0.0

    for update in range(1, args.updates + 1):
        with torch.no_grad():
            for t in range(T):
                all_obs[t] = obs
                all_raw[t] = net.sample(obs)
                nxt, rewards[t], ends[t] = arms.step(torch.tanh(all_raw[t]).numpy())
                obs = torch.from_numpy(nxt)
                frames += N
            run = net.critic(obs).squeeze(-1).numpy()
        target = np.zeros_like(rewards)
        for t in range(T - 1, -1, -1):
            run = rewards[t] + args.gamma * (1 - ends[t]) * run
            target[t] = run
        target = torch.from_numpy(target)

        value = net.critic(all_obs).squeeze(-1)
        logp, entropy = net.log_prob(all_obs, all_raw)
        adv = target - value.detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        actor_loss = -(logp * adv).mean() - args.entropy * entropy.mean()
        critic_loss = 0.5 * (value - target).pow(2).mean()
        opt.zero_grad()
        (actor_loss + critic_loss).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        smooth = 0.99 * smooth + 0.01 * float(rewards.mean())
        if update % 500 == 0:
            print(f"update {update} frames {frames} reward {smooth:.4f}", flush=True)


if __name__ == "__main__":
    main()
