import argparse
import time

import numpy as np
import torch

import dynamics
from td3 import TD3, ReplayBuffer

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=500_000)
parser.add_argument("--start", type=int, default=1000)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--explore", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--test-every", type=int, default=10_000)


def episodes(agent, rng, explore, start):
    """endless stream of transitions"""
    state = dynamics.initial(rng)
    obs, total, n = dynamics.observe(state), 0.0, 0
    while True:
        if n < start:
            u = rng.uniform(-1, 1, 2).astype(np.float32)
        else:
            u = np.clip(agent.act(obs) + explore * rng.standard_normal(2), -1, 1).astype(np.float32)
        state, reward, over = dynamics.transition(state, u)
        nxt = dynamics.observe(state)
        total += reward
        n += 1
        yield obs, u, reward, nxt, (total if over else None)
        obs = nxt
        if over:
            state = dynamics.initial(rng)
            obs, total = dynamics.observe(state), 0.0


def test(agent, rng, n=2):
    out = []
    for _ in range(n):
        s, done, tot = dynamics.initial(rng), False, 0.0
        while not done:
            s, r, done = dynamics.transition(s, agent.act(dynamics.observe(s)))
            tot += r
        out.append(tot)
    return np.mean(out)


if __name__ == "__main__":
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    rng = np.random.default_rng(args.seed)
    agent, buf = TD3(10, 2), ReplayBuffer(10, 2, 200_000)
    returns, t0 = [], time.time()
    for step, (o, u, r, o2, ret) in enumerate(episodes(agent, rng, args.explore, args.start), 1):
        buf.store(o, u, r, o2)
        if ret is not None:
            returns.append(ret)
        if step >= args.start:
            loss = agent.update(*buf.sample(args.batch))
            if step % 100 == 0:
                print(f"steps {step} return {np.mean(returns[-10:]):.1f} q-loss {loss.item():.3f} {step / (time.time() - t0):.0f}/s", flush=True)
        if step % args.test_every == 0:
            print("test", test(agent, rng), flush=True)
        if step == args.steps:
            break
