import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from policy import SharedPolicy
from world import HerdWorld


@dataclass
class Args:
    rollout: int = 40
    epochs: int = 3
    minibatches: int = 2
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 5e-4
    ent: float = 0.01
    updates: int = 20000
    seed: int = 5


class Rollout:
    def __init__(self, T, n, obs_dim):
        self.obs = np.zeros((T, n, obs_dim), np.float32)
        self.act = np.zeros((T, n), np.int64)
        self.logp, self.val, self.rew = (np.zeros((T, n), np.float32) for _ in range(3))
        self.done = np.zeros(T, np.float32)


class Runner:
    def __init__(self, env, policy, args):
        self.env, self.policy, self.args = env, policy, args
        self.obs = env.reset()
        self.buf = Rollout(args.rollout, env.n_dogs, env.obs_dim)
        self.ep_return, self.finished = 0.0, []

    def collect(self):
        buf, env = self.buf, self.env
        for t in range(self.args.rollout):
            actions = {}
            for i, name in enumerate(env.agents):
                a, logp, value = self.policy.act(self.obs[name])
                actions[name] = int(a)
                buf.obs[t, i] = self.obs[name]
                buf.act[t, i], buf.logp[t, i], buf.val[t, i] = a, logp, value
            self.obs, rewards, dones, _ = env.step(actions)
            buf.rew[t] = [rewards[k] for k in env.agents]
            buf.done[t] = dones["__all__"]
            self.ep_return += float(buf.rew[t].mean())
            if dones["__all__"]:
                self.finished.append(self.ep_return)
                self.ep_return = 0.0
                self.obs = env.reset()
        with torch.no_grad():
            last = np.stack([self.obs[k] for k in env.agents])
            _, nxt = self.policy(torch.from_numpy(last))
        return self.advantages(nxt.numpy())

    def advantages(self, nxt):
        b, a = self.buf, self.args
        adv, run = np.zeros_like(b.rew), np.zeros(b.rew.shape[1], np.float32)
        for t in reversed(range(len(b.rew))):
            keep = 1.0 - b.done[t]
            delta = b.rew[t] + a.gamma * nxt * keep - b.val[t]
            run = delta + a.gamma * a.lam * keep * run
            adv[t], nxt = run, b.val[t]
        return adv


def learn(policy, opt, buf, adv, args):
    flat = lambda x: torch.from_numpy(x.reshape(-1, *x.shape[2:]))
    obs, act, logp0 = flat(buf.obs), flat(buf.act), flat(buf.logp)
    ret = flat(adv + buf.val)
    adv = flat((adv - adv.mean()) / (adv.std() + 1e-8))
    n = len(act)
    for _ in range(args.epochs):
        for idx in torch.randperm(n).chunk(args.minibatches):
            dist, v = policy(obs[idx])
            ratio = (dist.log_prob(act[idx]) - logp0[idx]).exp()
            pg = -torch.min(ratio * adv[idx], ratio.clamp(1 - args.clip, 1 + args.clip) * adv[idx]).mean()
            loss = pg + 0.5 * F.mse_loss(v, ret[idx]) - args.ent * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            opt.step()
    return loss.item()


def main(args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    env = HerdWorld(seed=args.seed)
    policy = SharedPolicy(env.obs_dim, env.n_actions)
    opt = torch.optim.Adam(policy.parameters(), lr=args.lr)
    runner = Runner(env, policy, args)
    t0 = time.time()
    for u in range(1, args.updates + 1):
        adv = runner.collect()
        loss = learn(policy, opt, runner.buf, adv, args)
        if u % 5 == 0:
            steps = u * args.rollout
            ret = np.mean(runner.finished[-10:]) if runner.finished else float("nan")
            print(f"update {u} | env steps {steps} | return {ret:.2f} | loss {loss:.3f} | {steps / (time.time() - t0):.0f} steps/s", flush=True)


if __name__ == "__main__":
    main(Args())
