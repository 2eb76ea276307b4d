"""
Recurrent PPO on the corridor-with-cue task (memory): a cue is shown in the first 3 frames, then L steps of
noise, then at the junction left/right must match the cue. All corridors have the same length so a rollout
is exactly one episode and the hidden state always starts at zero.
"""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

config = {
    "env": {"n": 32, "length": 48, "noise": 0.4, "cues": 4},
    "net": {"enc": 48, "rnn": 64},
    "algo": {"lr": 5e-4, "epochs": 4, "clip": 0.2, "gamma": 0.995, "lam": 0.97, "ent": 0.01, "groups": 2},
    "run": {"iters": 200000, "log": 10, "save": 500, "seed": 0},
}


class Corridor:
    def __init__(self, n, length, noise, cues, seed):
        self.n, self.L, self.noise, self.k = n, length, noise, cues
        self.rng = np.random.default_rng(seed)
        self.obs_dim = cues + 3
        self.n_act = cues

    def reset(self):
        self.cue = self.rng.integers(0, self.k, self.n)
        self.x = np.zeros(self.n, np.float32)
        self.t = 0
        return self._o()

    def _o(self):
        o = np.empty((self.n, self.obs_dim), np.float32)
        o[:, :self.k] = self.noise * self.rng.standard_normal((self.n, self.k))
        if self.t < 3:
            o[np.arange(self.n), self.cue] += 1.0
        o[:, -3] = self.x
        o[:, -2] = self.t == self.L - 1
        o[:, -1] = self.t / self.L
        return o

    def step(self, a):
        drift = (a % 2) * 0.02 - 0.01
        self.x = np.clip(self.x + drift, -1, 1).astype(np.float32)
        r = -0.02 * np.abs(self.x)
        self.t += 1
        done = self.t == self.L
        if done:
            r = r + np.where(a == self.cue, 1.0, -0.3)
            self.hit = float((a == self.cue).mean())
        return (self.reset() if done else self._o()), r.astype(np.float32), done


class Net(nn.Module):
    def __init__(self, od, na, enc, rnn):
        super().__init__()
        self.enc = nn.Linear(od, enc)
        self.rnn = nn.GRU(enc, rnn)
        self.pi = nn.Linear(rnn, na)
        self.v = nn.Linear(rnn, 1)
        self.h = rnn

    def step(self, o, h):
        z = torch.relu(self.enc(o)).unsqueeze(0)
        y, h = self.rnn(z, h)
        y = y.squeeze(0)
        return F.log_softmax(self.pi(y), -1), self.v(y).squeeze(-1), h

    def unroll(self, o, h):
        """o: T x B x od"""
        lps, vs = [], []
        for t in range(o.shape[0]):
            lp, v, h = self.step(o[t], h)
            lps.append(lp)
            vs.append(v)
        return torch.stack(lps), torch.stack(vs)


def main():
    ce, ca, cr = config["env"], config["algo"], config["run"]
    torch.manual_seed(cr["seed"])
    env = Corridor(ce["n"], ce["length"], ce["noise"], ce["cues"], cr["seed"])
    net = Net(env.obs_dim, env.n_act, config["net"]["enc"], config["net"]["rnn"])
    opt = torch.optim.Adam(net.parameters(), lr=ca["lr"], fused=True)
    T, N = env.L, env.n
    bo = torch.zeros(T, N, env.obs_dim)
    ba = torch.zeros(T, N, dtype=torch.long)
    bl, bv, br = torch.zeros(T, N), torch.zeros(T, N), torch.zeros(T, N)
    steps, t0, hits = 0, time.time(), []
    o = env.reset()
    for it in range(1, cr["iters"] + 1):
        h = torch.zeros(1, N, net.h)
        with torch.inference_mode():
            for t in range(T):
                x = torch.from_numpy(o)
                lp, v, h = net.step(x, h)
                a = (lp - torch.log(-torch.log(torch.rand_like(lp).clamp(1e-9, 1 - 1e-7)))).argmax(-1)
                bo[t], ba[t], bv[t] = x, a, v
                bl[t] = lp.gather(-1, a[:, None])[:, 0]
                o, r, done = env.step(a.numpy())
                br[t] = torch.from_numpy(r)
        steps += T * N
        hits.append(env.hit)

        rn, vn = br.numpy(), bv.numpy()
        adv = np.zeros((T, N), np.float32)
        g = np.zeros(N, np.float32)
        for t in reversed(range(T)):
            nv = vn[t + 1] if t + 1 < T else 0.0
            g = rn[t] + ca["gamma"] * nv - vn[t] + ca["gamma"] * ca["lam"] * g
            adv[t] = g
        adv = torch.from_numpy(adv)
        ret = adv + bv
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)

        for _ in range(ca["epochs"]):
            for col in torch.randperm(N).chunk(ca["groups"]):
                lp, v = net.unroll(bo[:, col], torch.zeros(1, len(col), net.h))
                new = lp.gather(-1, ba[:, col, None])[..., 0]
                ratio = (new - bl[:, col]).exp()
                a_ = adv[:, col]
                pg = -torch.min(ratio * a_, ratio.clamp(1 - ca["clip"], 1 + ca["clip"]) * a_).mean()
                ent = -(lp.exp() * lp).sum(-1).mean()
                loss = pg + 0.5 * F.mse_loss(v, ret[:, col]) - ca["ent"] * ent
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
        if it % cr["log"] == 0:
            print("it %d  steps %d  hit rate %.3f  ent %.3f  loss %.4f  fps %d" % (
                it, steps, np.mean(hits[-50:]), ent.item(), loss.item(), steps / (time.time() - t0)), flush=True)
        if it % cr["save"] == 0:
            d = os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights")
            os.makedirs(d, exist_ok=True)
            torch.save(net.state_dict(), os.path.join(d, f"net_{it // cr['save'] % 3}.pt"))


if __name__ == "__main__":
    main()
