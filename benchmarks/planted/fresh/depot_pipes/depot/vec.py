import multiprocessing as mp

import numpy as np

from .simulator import DepotSim


def _worker(pipe, seed, inherited):
    for p in inherited:
        p.close()
    sim = DepotSim(seed)
    while True:
        try:
            cmd, arg = pipe.recv()
        except EOFError:
            return
        if cmd == "reset":
            pipe.send(sim.reset())
        elif cmd == "step":
            obs, reward, done, info = sim.step(arg)
            if done:
                obs = sim.reset()
            pipe.send((obs, reward, done, info))
        else:
            pipe.close()
            return


class PipeVec:
    def __init__(self, n, seed=0):
        ctx = mp.get_context("fork")
        self.n = n
        self.pipes, self.procs = [], []
        for i in range(n):
            here, there = ctx.Pipe()
            p = ctx.Process(target=_worker, args=(there, seed + i, self.pipes + [here]), daemon=True)
            p.start()
            there.close()
            self.pipes.append(here)
            self.procs.append(p)

    def reset(self):
        for p in self.pipes:
            p.send(("reset", None))
        return np.stack([p.recv() for p in self.pipes])

    def step(self, actions):
        for p, a in zip(self.pipes, actions):
            p.send(("step", int(a)))
        obs, rew, done, infos = zip(*[p.recv() for p in self.pipes])
        return np.stack(obs), np.array(rew, np.float32), np.array(done, np.float32), infos

    def close(self):
        for p in self.pipes:
            p.send(("close", None))
