# PPO for the membrane. worker processes with pipes (written before I knew about gym.vector...)
import os
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import multiprocessing as mp
import signal
import time

import numpy as np

CFG = {
    "workers": 2,
    "envs_per_worker": 4,
    "T": 24,
    "epochs": 5,
    "minibatches": 2,
    "lr": 3e-4,
    "gamma": 0.98,
    "lam": 0.95,
    "clip": 0.2,
    "width": 128,
    "iters": 100000,
    "print_every": 1,
    "ckpt_every": 200,
    "seed": 100,
}


def worker(pipe, seeds):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from membrane import Membrane
    envs = [Membrane(s) for s in seeds]
    k = len(envs)
    ret = np.zeros(k)
    try:
        while True:
            msg, data = pipe.recv()
            if msg == "step":
                obs = np.empty((k, Membrane.obs_dim), np.float32)
                rew = np.empty(k, np.float32)
                done = np.zeros(k, np.float32)
                fin = []
                for i, e in enumerate(envs):
                    o, rew[i], d, _ = e.step(data[i])
                    ret[i] += rew[i]
                    if d:
                        done[i] = 1
                        fin.append(ret[i])
                        ret[i] = 0
                        o = e.reset()
                    obs[i] = o
                pipe.send((obs, rew, done, fin))
            elif msg == "reset":
                out = np.stack([e.reset() for e in envs])
                for e in envs:
                    e.t = int(e.rng.integers(0, e.horizon))
                pipe.send(out)
            elif msg == "bye":
                break
    except (EOFError, OSError):
        pass


class Pool:
    def __init__(self, n, k, seed):
        ctx = mp.get_context("spawn")
        self.k, self.pipes, self.procs = k, [], []
        for i in range(n):
            a, b = ctx.Pipe()
            p = ctx.Process(target=worker, args=(b, [seed + i * k + j for j in range(k)]), daemon=True)
            p.start()
            b.close()
            self.pipes.append(a)
            self.procs.append(p)

    def reset(self):
        for p in self.pipes:
            p.send(("reset", None))
        return np.concatenate([p.recv() for p in self.pipes])

    def step(self, a):
        for i, p in enumerate(self.pipes):
            p.send(("step", a[i * self.k:(i + 1) * self.k]))
        o, r, d, f = zip(*[p.recv() for p in self.pipes])
        return np.concatenate(o), np.concatenate(r), np.concatenate(d), sum(f, [])

    def close(self):
        for p in self.pipes:
            p.send(("bye", None))
        for p in self.procs:
            p.join(timeout=2)


def main():
    import torch
    import torch.nn as nn
    from membrane import Membrane

    c = CFG
    torch.manual_seed(c["seed"])
    h = c["width"]
    od, ad = Membrane.obs_dim, Membrane.act_dim

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Sequential(nn.Linear(od, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
            self.out = nn.Linear(h, ad + 1)
            self.ls = nn.Parameter(torch.full((ad,), -0.7))

        def forward(self, x):
            y = self.out(self.base(x))
            return y[..., :ad], y[..., ad]

        def lp(self, mu, a):
            return (-0.5 * ((a - mu) / self.ls.exp()) ** 2 - self.ls - 0.918939).sum(-1)

    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=c["lr"], fused=True)
    pool = Pool(c["workers"], c["envs_per_worker"], c["seed"])
    N, T = c["workers"] * c["envs_per_worker"], c["T"]
    O = torch.zeros(T, N, od)
    A = torch.zeros(T, N, ad)
    L, V, R, D = (torch.zeros(T, N) for _ in range(4))
    o = pool.reset()
    steps, t0, rets = 0, time.time(), []
    try:
        for it in range(1, c["iters"] + 1):
            with torch.no_grad():
                for t in range(T):
                    x = torch.from_numpy(o)
                    mu, v = net(x)
                    a = mu + net.ls.exp() * torch.randn_like(mu)
                    O[t], A[t], V[t], L[t] = x, a, v, net.lp(mu, a)
                    o, r, d, fin = pool.step(a.numpy())
                    R[t], D[t] = torch.from_numpy(r), torch.from_numpy(d)
                    rets += fin
                nv = net(torch.from_numpy(o))[1]
            steps += N * T
            adv = torch.zeros(T, N)
            g = torch.zeros(N)
            for t in reversed(range(T)):
                live = 1 - D[t]
                g = R[t] + c["gamma"] * nv * live - V[t] + c["gamma"] * c["lam"] * live * g
                adv[t] = g
                nv = V[t]
            ret = (adv + V).flatten()
            adv = adv.flatten()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            fo, fa, fl = O.flatten(0, 1), A.flatten(0, 1), L.flatten()
            for _ in range(c["epochs"]):
                for ix in torch.randperm(N * T).chunk(c["minibatches"]):
                    mu, v = net(fo[ix])
                    ratio = (net.lp(mu, fa[ix]) - fl[ix]).exp()
                    loss = -torch.min(ratio * adv[ix], ratio.clamp(1 - c["clip"], 1 + c["clip"]) * adv[ix]).mean()
                    loss = loss + 0.5 * (v - ret[ix]).pow(2).mean()
                    opt.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                    opt.step()
            if it % c["print_every"] == 0:
                rets = rets[-40:]
                print(f"{it:5d}  {steps:8d} steps  return {np.mean(rets) if rets else 0:9.3f}  loss {loss.item():8.4f}  "
                      f"{steps / (time.time() - t0):7.1f} steps/s", flush=True)
            if it % c["ckpt_every"] == 0:
                d_ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt")
                os.makedirs(d_, exist_ok=True)
                torch.save(net.state_dict(), os.path.join(d_, "membrane.pt"))
    finally:
        pool.close()


if __name__ == "__main__":
    main()
