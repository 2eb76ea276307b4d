import numpy as np
import torch.multiprocessing as mp


def serve(conn, seeds, inherited):
    for c in inherited:
        c.close()
    from tank import WaveTank
    tanks = [WaveTank(s) for s in seeds]
    conn.send(np.stack([t.reset() for t in tanks]))
    while True:
        try:
            actions = conn.recv()
        except EOFError:
            break
        if actions is None:
            break
        o, r, d = [], [], []
        for tank, a in zip(tanks, actions):
            ob, rew, done, _ = tank.step(int(a))
            o.append(tank.reset() if done else ob)
            r.append(rew)
            d.append(done)
        conn.send((np.stack(o), np.array(r, np.float32), np.array(d, np.float32)))


class TankPool:
    def __init__(self, workers, per_worker, seed):
        ctx = mp.get_context("fork")
        self.conns, self.procs, self.k = [], [], per_worker
        for w in range(workers):
            a, b = ctx.Pipe()
            p = ctx.Process(target=serve, args=(b, [seed + w * per_worker + i for i in range(per_worker)], self.conns + [a]), daemon=True)
            p.start()
            b.close()
            self.conns.append(a)
            self.procs.append(p)
        self.first = np.concatenate([c.recv() for c in self.conns])

    def step(self, actions):
        for i, c in enumerate(self.conns):
            c.send(actions[i * self.k:(i + 1) * self.k])
        parts = [c.recv() for c in self.conns]
        return tuple(np.concatenate(p) for p in zip(*parts))

    def close(self):
        for c in self.conns:
            c.send(None)
