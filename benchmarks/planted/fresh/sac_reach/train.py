import argparse
import time

import numpy as np
import torch

from arm import PlanarArm
from memory import Memory
from sac import SAC

torch.set_num_threads(1)


def evaluate(agent, episodes=3):
    env = PlanarArm(seed=123)
    dists = []
    for _ in range(episodes):
        o, done = env.reset(), False
        while not done:
            o, _, done, info = env.step(agent.act(o))
        dists.append(info["dist"])
    return float(np.mean(dists))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1_000_000)
    p.add_argument("--warmup", type=int, default=500)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--updates-per-step", type=int, default=1)
    p.add_argument("--eval-every", type=int, default=10_000)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = PlanarArm(args.seed)
    s_dim, a_dim = env.observation_space.shape[0], env.action_space.shape[0]
    agent, mem = SAC(s_dim, a_dim), Memory(300_000, s_dim, a_dim, args.seed)
    o, ret, rets, t0 = env.reset(), 0.0, [], time.time()
    for step in range(1, args.steps + 1):
        a = agent.act(o) if step > args.warmup else rng.uniform(-1, 1, a_dim).astype(np.float32)
        o2, r, done, _ = env.step(a)
        mem.append(o, a, r, o2, 1.0)  # the horizon is a time limit
        ret += r
        o = o2
        if done:
            rets.append(ret)
            ret, o = 0.0, env.reset()
        if step > args.warmup:
            for _ in range(args.updates_per_step):
                agent.update(*mem.draw(args.batch))
        if step % 1000 == 0:
            print(f"{step} return {np.mean(rets[-10:]):.1f} alpha {agent.log_alpha.exp().item():.3f} {step / (time.time() - t0):.0f}/s", flush=True)
        if step % args.eval_every == 0:
            print(f"  eval: distance at the end {evaluate(agent):.3f}", flush=True)


if __name__ == "__main__":
    main()
