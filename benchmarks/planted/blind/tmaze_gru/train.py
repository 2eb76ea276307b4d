"""recurrent ppo on a t-maze (cue at the start, decide at the end). all mazes have the same length so sequences line up"""
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

C = dict(mazes=64, length=32, hidden=96, lr=1e-3, epochs=3, split=2, clip=0.2, gamma=0.99, ent=0.02, iters=10**6, seed=8,
         show=5, keep=1000)
for kv in sys.argv[1:]:         # length=60 etc
    k, v = kv.split("=")
    C[k] = type(C[k])(float(v))


class TMazes:
    """cue, noise, position. noisy corridor: the walls push the agent around"""

    def __init__(self, n, length, seed):
        self.n, self.L = n, length
        self.rng = np.random.default_rng(seed)

    def enter(self):
        self.goal = self.rng.integers(0, 2, self.n) * 2 - 1
        self.lane = np.zeros(self.n)
        self.k = 0
        return self.sense()

    def sense(self):
        s = np.zeros((self.n, 5), np.float32)
        if self.k == 0:
            s[:, 0] = self.goal
        s[:, 1] = self.lane
        s[:, 2] = self.k / self.L
        s[:, 3] = self.k == self.L - 1
        s[:, 4] = self.rng.standard_normal(self.n) * 0.5
        return s

    def move(self, a):
        # 0 left 1 stay 2 right
        self.lane = np.clip(self.lane + 0.2 * (a - 1) + 0.1 * self.rng.standard_normal(self.n), -1, 1)
        self.k += 1
        if self.k < self.L:
            return self.sense(), (-0.02 * np.abs(self.lane)).astype(np.float32), False
        return None, np.where((a - 1) == self.goal, 1.0, -0.1).astype(np.float32), True


class Rec(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.inp = nn.Linear(5, h)
        self.gru = nn.GRU(h, h)
        self.out = nn.Linear(h, 4)

    def forward(self, x, hid=None):
        y, hid = self.gru(F.relu(self.inp(x)), hid)
        o = self.out(y)
        return o[..., :3], o[..., 3], hid


def main():
    torch.manual_seed(C["seed"])
    torch.set_num_threads(1)
    env = TMazes(C["mazes"], C["length"], C["seed"])
    net = Rec(C["hidden"])
    opt = torch.optim.Adam(net.parameters(), lr=C["lr"], fused=True)
    T, N = C["length"], C["mazes"]
    X, A = torch.zeros(T, N, 5), torch.zeros(T, N, dtype=torch.long)
    LP, V = torch.zeros(T, N), torch.zeros(T, N)
    R = np.zeros((T, N), np.float32)
    frames, ok, t0, f0 = 0, [], time.time(), 0

    for it in range(1, C["iters"] + 1):
        s, hid = env.enter(), None
        with torch.inference_mode():
            for t in range(T):
                X[t] = torch.from_numpy(s)
                lg, v, hid = net(X[t:t + 1], hid)
                lp = F.log_softmax(lg[0], -1)
                a = (lp - torch.empty_like(lp).exponential_().log_()).argmax(-1)
                A[t], V[t] = a, v[0]
                LP[t] = lp.gather(1, a[:, None])[:, 0]
                s, R[t], end = env.move(a.numpy())
        frames += T * N
        ok.append(float((R[-1] > 0.5).mean()))

        # monte carlo returns, episodes are complete
        G, g = np.zeros_like(R), np.zeros(N, np.float32)
        for t in range(T - 1, -1, -1):
            g = R[t] + C["gamma"] * g
            G[t] = g
        G = torch.from_numpy(G)
        adv = G - V
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)

        for _ in range(C["epochs"]):
            for ix in torch.randperm(N).chunk(C["split"]):
                lg, v, _ = net(X[:, ix])
                lp = F.log_softmax(lg, -1)
                r = (lp.gather(2, A[:, ix, None])[..., 0] - LP[:, ix]).exp()
                ad = adv[:, ix]
                pl = -torch.min(r * ad, r.clamp(1 - C["clip"], 1 + C["clip"]) * ad).mean()
                ent = -(lp.exp() * lp).sum(-1).mean()
                loss = pl + 0.5 * F.mse_loss(v, G[:, ix]) - C["ent"] * ent
                opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()

        if it % C["show"] == 0:
            now = time.time()
            print(f"{it:6d} frames {frames} correct {np.mean(ok[-20:]):.2f} ent {ent.item():.2f} loss {loss.item():.3f} "
                  f"{(frames - f0) / (now - t0):.0f} fps", flush=True)
            t0, f0, ok = now, frames, ok[-20:]
        if it % C["keep"] == 0:
            d = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keep")
            os.makedirs(d, exist_ok=True)
            torch.save(net.state_dict(), os.path.join(d, f"rec_{it}.pt"))


if __name__ == "__main__":
    main()
