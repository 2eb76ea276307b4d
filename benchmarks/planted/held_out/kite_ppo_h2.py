"""PPO for kites that should stay inside the power zone of the wind window."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn


class KiteField:
    """A field of independent kites, stepped together as arrays."""

    def __init__(self, num, seed, limit=200):
        self.num, self.limit = num, limit
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros((num, 4))
        self.wind = np.zeros(num)
        self.age = np.zeros(num, np.int64)

    def _fresh(self, mask):
        k = int(mask.sum())
        self.state[mask] = self.rng.normal(0, 0.2, (k, 4))
        self.wind[mask] = self.rng.uniform(0.7, 1.3, k)
        self.age[mask] = 0

    def reset(self):
        self._fresh(np.ones(self.num, bool))
        return self._obs()

    def _obs(self):
        out = np.empty((self.num, 6), np.float32)
        out[:, :4] = self.state
        out[:, 4] = self.wind
        out[:, 5] = np.sin(0.1 * self.age)
        return out

    def step(self, steer):
        s = self.state
        gust = self.wind + 0.1 * self.rng.standard_normal(self.num)
        s[:, 2] += 0.05 * (1.5 * gust * (steer - 1) - 0.8 * s[:, 0] - 0.2 * s[:, 2])
        s[:, 3] += 0.05 * (gust * np.cos(s[:, 0]) - 1.0 - 0.5 * s[:, 1] - 0.2 * s[:, 3])
        s[:, :2] += 0.05 * s[:, 2:]
        self.age += 1
        aim = 0.5 * np.sin(0.1 * self.age)
        reward = 1.0 - np.abs(s[:, 0] - aim) - 0.3 * np.abs(s[:, 1])
        crashed = np.abs(s[:, :2]).max(1) > 1.6
        reward[crashed] -= 5.0
        done = crashed | (self.age >= self.limit)
        if done.any():
            self._fresh(done)
        return self._obs(), reward.astype(np.float32), done.astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
        self.critic = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)
        nn.init.zeros_(self.actor[-1].bias)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--num-envs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=2048)
    p.add_argument("--minibatches", type=int, default=4)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--total-steps", type=int, default=60_000_000)
    p.add_argument("--lr", type=float, default=6e-4)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def main():
    args = parse()
    gamma, lam, clip = 0.99, 0.95, 0.2
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    field = KiteField(args.num_envs, args.seed)
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, eps=1e-5)
    n = args.num_envs
    horizon = math.ceil(args.batch_size / n)
    obs_t = torch.zeros(horizon, n, 6)
    act_t = torch.zeros(horizon, n, dtype=torch.long)
    lp_t = torch.zeros(horizon, n)
    val_t = torch.zeros(horizon + 1, n)
    rew = np.zeros((horizon, n), np.float32)
    end = np.zeros((horizon, n), np.float32)

    steps_done, rounds = 0, 0
    obs = torch.from_numpy(field.reset())
    while steps_done < args.total_steps:
        with torch.no_grad():
            for t in range(horizon):
                logp = torch.log_softmax(net.actor(obs), -1)
                action = torch.multinomial(logp.exp(), 1)
                obs_t[t] = obs
                act_t[t] = action.squeeze(1)
                lp_t[t] = logp.gather(1, action).squeeze(1)
                nxt, rew[t], end[t] = field.step(act_t[t].numpy())
                obs = torch.from_numpy(nxt)
                steps_done += n
            val_t[:horizon] = net.critic(obs_t).squeeze(-1)
            val_t[horizon] = net.critic(obs).squeeze(-1)

        values = val_t.numpy()
        adv = np.zeros_like(rew)
        tail = np.zeros(n, np.float32)
        for t in reversed(range(horizon)):
            live = 1 - end[t]
            tail = rew[t] + gamma * live * values[t + 1] - values[t] + gamma * lam * live * tail
            adv[t] = tail
        adv_f = torch.from_numpy(adv).view(-1)
        ret_f = adv_f + val_t[:horizon].reshape(-1)
        obs_f, act_f, lp_f = obs_t.view(-1, 6), act_t.view(-1, 1), lp_t.view(-1)
        size = len(adv_f) // args.minibatches
        for _ in range(args.epochs):
            for pick in torch.randperm(len(adv_f)).split(size):
                logp = torch.log_softmax(net.actor(obs_f[pick]), -1)
                v = net.critic(obs_f[pick]).squeeze(-1)
                ratio = (logp.gather(1, act_f[pick]).squeeze(1) - lp_f[pick]).exp()
                a = adv_f[pick]
                a = (a - a.mean()) / (a.std() + 1e-8)
                surrogate = torch.min(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a).mean()
                entropy = -(logp.exp() * logp).sum(-1).mean()
                loss = -surrogate + 0.5 * (v - ret_f[pick]).pow(2).mean() - 0.005 * entropy
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()
        rounds += 1
        if rounds % 25 == 0:
            print(f"steps {steps_done} reward {rew.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
