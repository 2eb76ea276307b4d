import multiprocessing as mp

import numpy as np


def _serve(pipe, parent_ends, make, seeds):
    for p in parent_ends:
        p.close()
    envs = [make(s) for s in seeds]
    while True:
        try:
            cmd, data = pipe.recv()
        except EOFError:
            return
        if cmd == "reset":
            pipe.send(np.stack([e.reset() for e in envs]))
        elif cmd == "step":
            obs, rew, done = [], [], []
            for e, a in zip(envs, data):
                o, r, d, _ = e.step(a)
                obs.append(e.reset() if d else o)
                rew.append(r)
                done.append(d)
            pipe.send((np.stack(obs), np.array(rew, np.float32), np.array(done)))
        else:
            pipe.close()
            return


class WorkerPool:
    """A few processes with several environments each."""

    def __init__(self, make, workers, envs_per_worker, seed):
        ctx = mp.get_context("fork")
        self.per, self.n = envs_per_worker, workers * envs_per_worker
        self.pipes = []
        for w in range(workers):
            here, there = ctx.Pipe()
            seeds = [seed + w * envs_per_worker + i for i in range(envs_per_worker)]
            self.pipes.append(here)
            ctx.Process(target=_serve, args=(there, self.pipes, make, seeds), daemon=True).start()
            there.close()

    def reset(self):
        for p in self.pipes:
            p.send(("reset", None))
        return np.concatenate([p.recv() for p in self.pipes])

    def step(self, actions):
        for i, p in enumerate(self.pipes):
            p.send(("step", actions[i * self.per:(i + 1) * self.per]))
        obs, rew, done = zip(*[p.recv() for p in self.pipes])
        return np.concatenate(obs), np.concatenate(rew), np.concatenate(done)

    def close(self):
        for p in self.pipes:
            p.send(("close", None))
