import multiprocessing as mp

import numpy as np

from .plate import Plate


def _serve(conn, other_end, seeds):
    other_end.close()
    plates = [Plate(s) for s in seeds]
    try:
        while True:
            msg = conn.recv()
            if msg is None:
                conn.send(np.stack([p.reset() for p in plates]))
                continue
            obs, rew, done = [], [], []
            for p, a in zip(plates, msg):
                o, r, d = p.step(a)
                if d:
                    o = p.reset()
                obs.append(o)
                rew.append(r)
                done.append(d)
            conn.send((np.stack(obs), np.array(rew, np.float32), np.array(done, np.float32)))
    except (EOFError, KeyboardInterrupt, OSError):
        pass


class PlateWorkers:
    """n_workers processes with a few plates each"""

    def __init__(self, n_workers, per_worker, seed):
        self.n = n_workers * per_worker
        self.per = per_worker
        self.conns, self.procs = [], []
        for w in range(n_workers):
            here, there = mp.Pipe()
            seeds = [seed + w * per_worker + k for k in range(per_worker)]
            p = mp.Process(target=_serve, args=(there, here, seeds), daemon=True)
            p.start()
            there.close()
            self.conns.append(here)
            self.procs.append(p)

    def reset(self):
        for c in self.conns:
            c.send(None)
        return np.concatenate([c.recv() for c in self.conns])

    def step(self, actions):
        for k, c in enumerate(self.conns):
            c.send(actions[k * self.per:(k + 1) * self.per])
        out = [c.recv() for c in self.conns]
        return tuple(np.concatenate(x) for x in zip(*out))
