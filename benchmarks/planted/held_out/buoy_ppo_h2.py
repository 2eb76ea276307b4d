"""PPO for buoys that hold their station in waves."""
import argparse

import numpy as np
import torch
import torch.nn as nn


class Sea:
    """Independent buoys with a small thruster, stepped together."""

    def __init__(self, count, seed, limit=250):
        self.count, self.limit = count, limit
        self.rng = np.random.default_rng(seed)
        self.pos = np.zeros(count, np.float32)
        self.vel = np.zeros(count, np.float32)
        self.phase = np.zeros(count, np.float32)
        self.drift = np.zeros(count, np.float32)
        self.age = self.rng.integers(0, limit, count)
        self.out = np.empty((count, 5), np.float32)
        self._place(np.arange(count))

    def _place(self, who):
        k = len(who)
        self.pos[who] = self.rng.uniform(-1, 1, k)
        self.vel[who] = 0
        self.phase[who] = self.rng.uniform(0, 6.28, k)
        self.drift[who] = self.rng.uniform(-0.4, 0.4, k)

    def observe(self):
        o = self.out
        o[:, 0], o[:, 1], o[:, 4] = self.pos, self.vel, self.drift
        np.sin(self.phase, out=o[:, 2])
        np.cos(self.phase, out=o[:, 3])
        return o

    def step(self, thrust):
        push = thrust.clip(-1, 1)
        self.phase += 0.15
        self.vel += 0.05 * (1.5 * push + self.drift + 0.5 * np.sin(self.phase) - 0.5 * self.vel)
        self.pos += 0.05 * self.vel
        self.age += 1
        reward = 1.0 - np.abs(self.pos) - 0.05 * push * push
        adrift = np.abs(self.pos) > 2.5
        ended = adrift | (self.age >= self.limit)
        who = np.flatnonzero(ended)
        if len(who):
            reward[adrift] -= 3.0
            self._place(who)
            self.age[who] = 0
        return self.observe(), reward, ended


class Helm(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(5, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.vf = nn.Sequential(nn.Linear(5, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def log_prob(self, mean, action):
        z = (action - mean) * torch.exp(-self.log_std)
        return -0.5 * z * z - self.log_std


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--buoys", type=int, default=512)
    ap.add_argument("--unroll", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--minibatch", type=int, default=4096)
    ap.add_argument("--total", type=int, default=400_000_000)
    ap.add_argument("--seed", type=int, default=2)
    args = ap.parse_args()
    gamma, lam, clip = 0.98, 0.95, 0.2
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    sea = Sea(args.buoys, args.seed)
    helm = Helm()
    opt = torch.optim.Adam(helm.parameters(), lr=1e-3, fused=True)
    T, N = args.unroll, args.buoys
    obs = np.empty((T + 1, N, 5), np.float32)
    act = torch.empty(T, N)
    rew = np.empty((T, N), np.float32)
    end = np.empty((T, N), np.float32)
    obs[0] = sea.observe()
    steps, rounds = 0, 0

    while steps < args.total:
        with torch.inference_mode():
            std = helm.log_std.exp()
            for t in range(T):
                mean = helm.pi(torch.from_numpy(obs[t])).squeeze(-1)
                torch.add(mean, torch.randn(N) * std, out=act[t])
                obs[t + 1], rew[t], end[t] = sea.step(act[t].numpy())
            steps += T * N
            every = torch.from_numpy(obs)
            values = helm.vf(every).squeeze(-1).numpy()
        with torch.no_grad():
            old = helm.log_prob(helm.pi(every[:T]).squeeze(-1), act).view(-1)
        adv = np.empty((T, N), np.float32)
        run = np.zeros(N, np.float32)
        for t in range(T - 1, -1, -1):
            live = 1 - end[t]
            run = rew[t] + gamma * live * values[t + 1] - values[t] + gamma * lam * live * run
            adv[t] = run
        b_obs, b_act = every[:T].reshape(-1, 5), act.view(-1)
        b_ret = torch.from_numpy(adv + values[:T]).view(-1)
        b_adv = torch.from_numpy((adv - adv.mean()) / (adv.std() + 1e-8)).view(-1)
        for _ in range(args.epochs):
            for pick in torch.randperm(T * N).split(args.minibatch):
                x, a = b_obs[pick], b_adv[pick]
                ratio = (helm.log_prob(helm.pi(x).squeeze(-1), b_act[pick]) - old[pick]).exp()
                gain = torch.min(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a).mean()
                miss = (helm.vf(x).squeeze(-1) - b_ret[pick]).pow(2).mean()
                opt.zero_grad()
                (0.5 * miss - gain - 0.001 * helm.log_std.sum()).backward()
                nn.utils.clip_grad_norm_(helm.parameters(), 0.5)
                opt.step()
        obs[0] = obs[T]
        rounds += 1
        if rounds % 20 == 0:
            print(f"{steps} steps, reward {rew.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
