import time

import numpy as np
import torch
from tqdm import tqdm

from agents.qr import QRAgent
from buffers.memory import ReplayMemory
from envs import FruitField

cfg = dict(
    n_envs=16,
    mem=300_000,
    prefill=150_000,       # random baskets first, the start is much smoother with it
    batch=96,
    total=20_000_000,
    eps0=0.6, eps1=0.03, eps_steps=400_000,
    seed=5,
)


def prefill(mem, seed, n):
    env = FruitField(50, seed)
    rng = np.random.default_rng(seed)
    o = env.reset()
    while len(mem) < n:
        a = rng.integers(0, 3, env.n)
        o2, r, d = env.step(a)
        mem.push_many(o, a, r, o2, d)
        o = o2


def main():
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)
    rng = np.random.default_rng(cfg["seed"])
    env = FruitField(cfg["n_envs"], cfg["seed"])
    agent = QRAgent(env.obs_dim, env.N_ACTIONS)
    mem = ReplayMemory(cfg["mem"], env.obs_dim, cfg["seed"])
    t0 = time.time()
    prefill(mem, cfg["seed"] + 1, cfg["prefill"])
    print("prefill done, %d transitions, %.1fs" % (len(mem), time.time() - t0))

    obs = env.reset()
    ret = np.zeros(env.n)
    done_rets = []
    losses = []
    bar = tqdm(total=cfg["total"], unit="st", mininterval=1.0)
    steps = 0
    while steps < cfg["total"]:
        eps = cfg["eps1"] + (cfg["eps0"] - cfg["eps1"]) * max(0.0, 1 - steps / cfg["eps_steps"])
        act = agent.greedy(obs)
        rnd = rng.random(env.n) < eps
        if rnd.any():
            act = np.where(rnd, rng.integers(0, env.N_ACTIONS, env.n), act)
        nobs, rew, done = env.step(act)
        mem.push_many(obs, act, rew, nobs, done)
        ret += rew
        if done.any():
            done_rets.extend(ret[done].tolist())
            ret[done] = 0
        obs = nobs
        steps += env.n
        bar.update(env.n)

        losses.append(agent.learn(mem.sample(cfg["batch"])))
        if steps % (env.n * 500) == 0:
            bar.set_postfix(ret=f"{np.mean(done_rets[-100:] or [0]):.1f}",
                            loss=f"{torch.stack(losses).mean().item():.3f}", eps=f"{eps:.2f}")
            losses.clear()
    bar.close()


if __name__ == "__main__":
    main()
