import os
import queue

import numpy as np
import torch

from net import Net
from pursuit import Pursuit


def make_slots(cfg):
    T, B = cfg["unroll"], cfg["envs_per_actor"]
    mk = lambda *s, dt=torch.float32: torch.zeros(*s, dtype=dt).share_memory_()
    return [dict(obs=mk(T + 1, B, *Pursuit.OBS), act=mk(T, B, dt=torch.int64), logp=mk(T, B), rew=mk(T, B), done=mk(T, B),
                 wins=mk(1), over=mk(1)) for _ in range(cfg["slots"])]


def run_actor(rank, cfg, shared, slots, free_q, full_q, stop):
    torch.set_num_threads(cfg["torch_threads"])
    torch.manual_seed(cfg["seed"] * 100 + rank)
    env = Pursuit(cfg["envs_per_actor"], cfg["seed"] * 100 + rank)
    net = Net(env.OBS, env.ACT, cfg["hidden"])
    parent = os.getppid()
    obs = env.observe()
    while not stop.is_set() and os.getppid() == parent:
        try:
            i = free_q.get(timeout=1.0)
        except queue.Empty:
            continue
        s = slots[i]
        with torch.inference_mode():
            for p, q in zip(net.parameters(), shared):
                p.copy_(q)
            wins = n_over = 0
            for t in range(cfg["unroll"]):
                o = torch.from_numpy(obs)
                logits, _ = net(o)
                lp = torch.log_softmax(logits, -1)
                a = (lp - torch.empty_like(lp).exponential_().log()).argmax(-1)
                rew, over, caught = env.advance(a.numpy())
                s["obs"][t] = o
                s["act"][t] = a
                s["logp"][t] = lp.gather(1, a[:, None]).squeeze(1)
                s["rew"][t] = torch.from_numpy(rew)
                s["done"][t] = torch.from_numpy(over.astype(np.float32))
                wins += int(caught.sum())
                n_over += int(over.sum())
                obs = env.observe()
            s["obs"][-1] = torch.from_numpy(obs)
            s["wins"][0], s["over"][0] = wins, n_over
        full_q.put(i)
