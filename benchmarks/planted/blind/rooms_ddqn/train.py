import json
import os

import numpy as np
import torch
from tqdm import tqdm

from agents.dueling import Agent
from buffers.ring import Ring
from envs.rooms import FourRooms

HERE = os.path.dirname(os.path.abspath(__file__))
cfg = json.load(open(os.path.join(HERE, "configs", "rooms.json")))


def test(agent, n=64):
    """success rate over n episodes at the same time"""
    e = FourRooms(n, 12345)
    o = e.start()
    e.age[:] = 0
    alive, ok = np.ones(n, bool), np.zeros(n, bool)
    for _ in range(e.limit):
        o, _, won, end, _ = e.go(agent.best(o))
        ok |= won & alive
        alive &= ~end
        if not alive.any():
            break
    return ok.mean()


def main():
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)
    rng = np.random.default_rng(cfg["seed"])
    env = FourRooms(cfg["n_envs"], cfg["seed"])
    agent = Agent(env.obs_dim, 4, cfg)
    mem = Ring(cfg["capacity"], env.obs_dim, cfg["seed"])
    n, (e0, e1, en) = cfg["n_envs"], cfg["eps"]
    o = env.start()
    wins = ends = 0
    succ = float("nan")
    losses = []
    bar = tqdm(total=cfg["total"], mininterval=1.0)
    for step in range(n, cfg["total"], n):
        eps = max(e1, e0 - (e0 - e1) * step / en)
        a = rng.integers(0, 4, n)
        g = rng.random(n) >= eps
        if step > cfg["warmup"]:
            a = np.where(g, agent.best(o), a)
        o2, r, won, end, last = env.go(a)
        mem.put(o, a, r, last, won)
        o = o2
        wins += won.sum()
        ends += end.sum()
        if step > cfg["warmup"]:
            for b in mem.chunks(cfg["updates_per_tick"], cfg["batch"]):
                losses.append(agent.learn(*b))
        bar.update(n)
        if step % (n * 200) == 0 and losses:
            bar.set_postfix(win=f"{wins / max(ends, 1):.2f}", test=f"{succ:.2f}", loss=f"{torch.stack(losses).mean().item():.4f}")
            losses.clear()
            wins = ends = 0
        if step % cfg["eval_every"] == 0:
            succ = test(agent)


if __name__ == "__main__":
    main()
