"""
alphazero-ish self play for connect four, small enough for my laptop

usage: python train.py [--sims 32] [--games 4]
"""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

from game import ConnectFour
from mcts import MCTS
from net import PVNet, encode

HERE = os.path.dirname(os.path.abspath(__file__))


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=20000)
    p.add_argument("--games", type=int, default=1, help="self play games per iteration")
    p.add_argument("--sims", type=int, default=32)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--window", type=int, default=8000)
    p.add_argument("--temp-moves", type=int, default=10)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def self_play(mcts, temp_moves, rng):
    g = ConnectFour()
    xs, pis, who = [], [], []
    while not g.over:
        pi = mcts.run(g)
        xs.append(encode(g))
        pis.append(pi)
        who.append(g.to_move)
        if len(g.log) < temp_moves:
            a = int(rng.choice(7, p=pi / pi.sum()))
        else:
            a = int(pi.argmax())
        g.play(a)
    z = [float(g.winner * w) for w in who]
    return xs, pis, z, g


def mirror(x, pi):
    m = x.reshape(2, 6, 7)[:, :, ::-1].reshape(-1).copy()
    return m, pi[::-1].copy()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    rng = np.random.default_rng(args.seed)
    torch.set_num_threads(1)

    net = PVNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, weight_decay=1e-4, fused=True)
    mcts = MCTS(net, sims=args.sims, rng=rng)

    X = np.zeros((args.window, 84), np.float32)
    P = np.zeros((args.window, 7), np.float32)
    Z = np.zeros(args.window, np.float32)
    ptr = full = 0
    total_moves = 0
    t0 = time.time()
    ckpt_dir = os.path.join(HERE, "ckpt")

    for it in range(1, args.iters + 1):
        net.eval()
        lens, draws = [], 0
        for _ in range(args.games):
            xs, pis, zs, g = self_play(mcts, args.temp_moves, rng)
            total_moves += len(xs)
            lens.append(len(xs))
            draws += g.winner == 0
            for x, pi, z in zip(xs, pis, zs):
                mx, mp = mirror(x, pi)
                for a, b in ((x, pi), (mx, mp)):
                    X[ptr], P[ptr], Z[ptr] = a, b, z
                    ptr = (ptr + 1) % args.window
                    full = min(full + 1, args.window)

        # ---- learn
        net.train()
        tot_p = tot_v = 0.0
        for _ in range(args.epochs):
            idx = rng.integers(0, full, args.batch)
            logits, v = net(torch.from_numpy(X[idx]))
            lp = -(torch.from_numpy(P[idx]) * F.log_softmax(logits, -1)).sum(-1).mean()
            lv = F.mse_loss(v, torch.from_numpy(Z[idx]))
            loss = lp + lv
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            tot_p += lp.item()
            tot_v += lv.item()

        if it % 2 == 0:
            el = time.time() - t0
            print(f"it {it:5d}  moves {total_moves:7d}  len {np.mean(lens):5.1f}  "
                  f"pi {tot_p / args.epochs:.3f}  v {tot_v / args.epochs:.3f}  {total_moves / el:.1f} moves/s", flush=True)
        if it % 500 == 0:
            os.makedirs(ckpt_dir, exist_ok=True)
            torch.save(net.state_dict(), os.path.join(ckpt_dir, "net.pt"))
            print(g.show())


if __name__ == "__main__":
    main()
