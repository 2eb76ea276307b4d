# TD3 on the lab's motor benches (there are four of them).
import copy
import os
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from rig.env import MotorBench

torch.set_num_threads(1)


@dataclass
class Args:
    seed: int = 5
    benches: int = 4
    total_steps: int = 5_000_000
    buffer_size: int = 200_000
    batch_size: int = 256
    learning_starts: int = 800
    lr: float = 3e-4
    gamma: float = 0.97
    tau: float = 0.005
    policy_noise: float = 0.2
    noise_clip: float = 0.4
    explore: float = 0.1
    policy_every: int = 2


def mlp(i, o, h=256):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Ring:
    def __init__(self, n, obs_dim, act_dim):
        self.n, self.i, self.full = n, 0, False
        self.o = np.zeros((n, obs_dim), np.float32)
        self.o2 = np.zeros((n, obs_dim), np.float32)
        self.a = np.zeros((n, act_dim), np.float32)
        self.r = np.zeros((n, 1), np.float32)
        self.d = np.zeros((n, 1), np.float32)

    def add(self, o, a, r, o2, d):
        k = len(o)
        idx = (self.i + np.arange(k)) % self.n
        self.o[idx], self.a[idx], self.r[idx, 0], self.o2[idx], self.d[idx, 0] = o, a, r, o2, d
        self.full |= self.i + k >= self.n
        self.i = (self.i + k) % self.n

    def __len__(self):
        return self.n if self.full else self.i

    def sample(self, m):
        j = np.random.randint(0, len(self), m)
        return [torch.from_numpy(x[j]) for x in (self.o, self.a, self.r, self.o2, self.d)]


class TD3:
    def __init__(self, obs_dim, act_dim, args):
        self.args = args
        self.actor = mlp(obs_dim, act_dim)
        self.q1, self.q2 = mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)
        self.online = nn.ModuleList([self.actor, self.q1, self.q2])
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), lr=args.lr, fused=True)
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=args.lr, fused=True)
        self.pairs = (list(self.target.parameters()), [p for p in self.online.parameters()])
        self.n = 0

    @torch.no_grad()
    def act(self, obs):
        a = torch.tanh(self.actor(torch.from_numpy(obs)))
        a = a + self.args.explore * torch.randn_like(a)
        return a.clamp(-1, 1).numpy()

    def update(self, batch):
        args = self.args
        o, a, r, o2, d = batch
        ta, t1, t2 = self.target
        with torch.no_grad():
            noise = (torch.randn_like(a) * args.policy_noise).clamp(-args.noise_clip, args.noise_clip)
            x2 = torch.cat([o2, (torch.tanh(ta(o2)) + noise).clamp(-1, 1)], 1)
            y = r + args.gamma * (1 - d) * torch.min(t1(x2), t2(x2))
        x = torch.cat([o, a], 1)
        loss = F.mse_loss(self.q1(x), y) + F.mse_loss(self.q2(x), y)
        self.q_opt.zero_grad()
        loss.backward()
        self.q_opt.step()
        self.n += 1
        if self.n % args.policy_every == 0:
            pi_loss = -self.q1(torch.cat([o, torch.tanh(self.actor(o))], 1)).mean()
            self.a_opt.zero_grad()
            pi_loss.backward()
            self.a_opt.step()
            with torch.no_grad():
                torch._foreach_lerp_(self.pairs[0], self.pairs[1], args.tau)


def main():
    args = Args()
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = gym.vector.AsyncVectorEnv(
        [lambda i=i: MotorBench(i) for i in range(args.benches)], autoreset_mode=gym.vector.AutoresetMode.NEXT_STEP
    )
    agent = TD3(5, 2, args)
    ring = Ring(args.buffer_size, 5, 2)
    obs, _ = envs.reset(seed=args.seed)
    was_done = np.zeros(args.benches, bool)
    steps, t0, score = 0, time.time(), np.zeros(args.benches)
    done_scores = []
    while steps < args.total_steps:
        if steps < args.learning_starts:
            action = envs.action_space.sample()
        else:
            action = agent.act(obs)
        envs.step_async(action)
        # the benches need a few milliseconds: learn meanwhile, one update for each transition
        if steps >= args.learning_starts:
            for _ in range(args.benches):
                agent.update(ring.sample(args.batch_size))
        nxt, rew, term, trunc, _ = envs.step_wait()
        ok = ~was_done
        ring.add(obs[ok], action[ok], rew[ok], nxt[ok], term[ok])
        score += np.where(ok, rew, 0)
        was_done = term | trunc
        for i in np.flatnonzero(was_done):
            done_scores.append(score[i])
            score[i] = 0
        obs = nxt
        steps += args.benches
        if steps % 2000 == 0:
            s = np.mean(done_scores[-8:]) if done_scores else float("nan")
            print(f"{steps} steps  return {s:.1f}  {steps / (time.time() - t0):.0f} steps/s", flush=True)
        if steps % 100_000 == 0:
            os.makedirs("ckpt", exist_ok=True)
            torch.save(agent.online.state_dict(), "ckpt/latest.pt")


if __name__ == "__main__":
    main()
