"""four in a row on a free 7x7 board ("quad7"), self play, PUCT search for all games at once in arrays.

tree arrays are (B, nodes, 49): visits, value sums, priors, child index. Node 0 is the root.
"""
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = dict(
    games=48,
    sims=24,
    cpuct=1.5,
    noise=(0.3, 0.25),
    temp_moves=10,
    ch=64,
    blocks=2,
    lr=8e-4,
    batch=128,
    window=40000,
    fits=1,
    seed=5,
)
S = 7
A = S * S
HERE = os.path.dirname(os.path.abspath(__file__))


def wins(b):
    """b (n,7,7) bool -> has four in a row"""
    h = (b[:, :, :-3] & b[:, :, 1:-2] & b[:, :, 2:-1] & b[:, :, 3:]).any((1, 2))
    v = (b[:, :-3] & b[:, 1:-2] & b[:, 2:-1] & b[:, 3:]).any((1, 2))
    d = (b[:, :-3, :-3] & b[:, 1:-2, 1:-2] & b[:, 2:-1, 2:-1] & b[:, 3:, 3:]).any((1, 2))
    e = (b[:, 3:, :-3] & b[:, 2:-1, 1:-2] & b[:, 1:-2, 2:-1] & b[:, :-3, 3:]).any((1, 2))
    return h | v | d | e


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.a(x))))


class Net(nn.Module):
    def __init__(self, c, n):
        super().__init__()
        self.stem = nn.Conv2d(2, c, 3, padding=1)
        self.body = nn.Sequential(*[Block(c) for _ in range(n)])
        self.p = nn.Conv2d(c, 1, 1)
        self.v1 = nn.Conv2d(c, 4, 1)
        self.v2 = nn.Linear(4 * A, 1)

    def forward(self, x):
        x = self.body(F.relu(self.stem(x)))
        return self.p(x).flatten(1), torch.tanh(self.v2(F.relu(self.v1(x)).flatten(1))).squeeze(-1)


def infer(net, own, opp):
    with torch.inference_mode():
        x = torch.from_numpy(np.stack([own, opp], -1).astype(np.float32)).permute(0, 3, 1, 2)   # channels last
        p, v = net(x)
        p = p.masked_fill(torch.from_numpy((own | opp).reshape(-1, A)), -1e9)
        return p.softmax(-1).numpy(), v.numpy()


def search(net, own, opp, rng):
    """own/opp (B,7,7) bool seen from the side to move. returns visit counts (B,49)"""
    B, n = len(own), cfg["sims"] + 1
    ar = np.arange(B)
    N = np.zeros((B, n, A), np.float32)
    W = np.zeros((B, n, A), np.float32)
    P = np.zeros((B, n, A), np.float32)
    child = np.full((B, n, A), -1, np.int32)
    bo = np.zeros((B, n, S, S), bool)
    bp = np.zeros((B, n, S, S), bool)
    term = np.full((B, n), np.nan, np.float32)
    bo[:, 0], bp[:, 0] = own, opp
    P[:, 0], _ = infer(net, own, opp)
    al, fr = cfg["noise"]
    free = ~(own | opp).reshape(B, A)
    g = rng.gamma(al, 1.0, (B, A)).astype(np.float32) * free
    P[:, 0] = (1 - fr) * P[:, 0] + fr * g / g.sum(1, keepdims=True)

    for k in range(1, n):
        node = np.zeros(B, np.int64)
        trail = []
        live = np.ones(B, bool)
        act = np.zeros(B, np.int64)
        parent = np.zeros(B, np.int64)
        while live.any():
            i = np.nonzero(live)[0]
            nd = node[i]
            vis = N[i, nd]
            q = W[i, nd] / np.maximum(vis, 1)
            u = cfg["cpuct"] * P[i, nd] * np.sqrt(vis.sum(1, keepdims=True) + 1) / (1 + vis)
            sc = np.where(P[i, nd] > 0, q + u, -1e9)
            a = sc.argmax(1)
            trail.append((i, nd, a))
            act[i], parent[i] = a, nd
            nx = child[i, nd, a]
            node[i] = nx
            stop = (nx < 0)
            stop |= ~np.isnan(term[i, np.maximum(nx, 0)]) & (nx >= 0)
            live[i[stop]] = False
        new = node < 0
        # expand: the new position is seen from the other side
        o = bo[ar, parent].copy().reshape(B, A)
        o[ar, act] = True
        o = o.reshape(B, S, S)
        node[new] = k
        j = ar[new]
        bo[j, k], bp[j, k] = bp[j, parent[new]], o[new]
        child[j, parent[new], act[new]] = k
        won = wins(o)
        full = (bo[ar, node] | bp[ar, node]).all((1, 2))
        p, v = infer(net, bo[ar, node], bp[ar, node])
        term[j, k] = np.where(won, -1.0, np.where(full, 0.0, np.nan))[new]
        tv = term[ar, node]
        v = np.where(np.isnan(tv), v, tv).astype(np.float32)
        P[j, k] = p[new]
        # backup.  v is from the leaf's side to move; depth differs per game
        depth = np.zeros(B, np.int64)
        for i, _, _ in trail:
            depth[i] += 1
        for d, (i, nd, a) in enumerate(trail):
            sign = np.where((depth[i] - d) % 2 == 1, -1.0, 1.0)
            N[i, nd, a] += 1
            W[i, nd, a] += sign * v[i]
    return N[:, 0]


def main():
    rng = np.random.default_rng(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    net = Net(cfg["ch"], cfg["blocks"]).to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=cfg["lr"] * 20, momentum=0.9, weight_decay=1e-4)
    B = cfg["games"]
    own, opp = np.zeros((B, S, S), bool), np.zeros((B, S, S), bool)
    ply = np.zeros(B, np.int64)
    hx = np.zeros((B, A, 2, S, S), np.float32)
    hp = np.zeros((B, A, A), np.float32)
    X = np.zeros((cfg["window"], 2, S, S), np.float32)
    Pi = np.zeros((cfg["window"], A), np.float32)
    Z = np.zeros(cfg["window"], np.float32)
    head = size = 0
    ar = np.arange(B)
    moves = games = draws = 0
    lens = []
    lp = lv = torch.zeros(())
    t0 = time.time()
    r = 0
    while moves < 100_000_000:
        cnt = search(net, own, opp, rng)
        pi = cnt / cnt.sum(1, keepdims=True)
        c = pi.cumsum(1)
        samp = (c > rng.random((B, 1)) * c[:, -1:]).argmax(1)
        a = np.where(ply < cfg["temp_moves"], samp, pi.argmax(1))
        hx[ar, ply, 0], hx[ar, ply, 1], hp[ar, ply] = own, opp, pi
        own.reshape(B, A)[ar, a] = True
        ply += 1
        won = wins(own)
        over = won | (ply == A)
        for b in np.nonzero(over)[0]:
            L = ply[b]
            z = np.zeros(L, np.float32)
            if won[b]:
                z[::-1][::2], z[::-1][1::2] = 1, -1
            ix = (head + np.arange(L)) % cfg["window"]
            X[ix], Pi[ix], Z[ix] = hx[b, :L], hp[b, :L], z
            head = (head + L) % cfg["window"]
            size = min(size + L, cfg["window"])
            games += 1
            draws += not won[b]
            lens.append(L)
        own, opp = opp, own
        own[over] = False
        opp[over] = False
        ply[over] = 0
        moves += B
        r += 1
        if size > 1000:
            for _ in range(cfg["fits"]):
                ix = rng.integers(0, size, cfg["batch"])
                p, v = net(torch.from_numpy(X[ix]).to(memory_format=torch.channels_last))
                lp = -(torch.from_numpy(Pi[ix]) * F.log_softmax(p, -1)).sum(-1).mean()
                lv = F.mse_loss(v, torch.from_numpy(Z[ix]))
                opt.zero_grad()
                (lp + lv).backward()
                opt.step()
        if r % 10 == 0:
            print(f"ply {r} moves {moves} games {games} draws {draws} len {np.mean(lens[-100:]) if lens else 0:.1f} "
                  f"lp {lp.item():.3f} lv {lv.item():.3f} {moves / (time.time() - t0):.0f} moves/s", flush=True)
        if r % 500 == 0:
            torch.save(net.state_dict(), os.path.join(HERE, "quad7.pt"))


if __name__ == "__main__":
    main()
