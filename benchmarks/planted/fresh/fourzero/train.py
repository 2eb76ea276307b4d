import random
import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F

from zero import PolicyValueNet, SelfPlayWorker

CONFIG = dict(
    n_sims=20, c_puct=1.6, temp_moves=8,
    window=20_000, batch_size=128, updates_per_game=6,
    lr=1e-3, l2=1e-4, games=4000, seed=3,
)


def update(net, opt, window, cfg):
    batch = random.sample(window, cfg["batch_size"])
    s, pi, z = zip(*batch)
    s = torch.from_numpy(np.stack(s))
    pi = torch.from_numpy(np.stack(pi))
    z = torch.tensor(z, dtype=torch.float32)
    logits, v = net(s)
    loss_pi = -(pi * F.log_softmax(logits, -1)).sum(-1).mean()
    loss_v = F.mse_loss(v, z)
    opt.zero_grad()
    (loss_pi + loss_v).backward()
    opt.step()
    return loss_pi.item(), loss_v.item()


def main():
    cfg = CONFIG
    torch.set_num_threads(1)
    random.seed(cfg["seed"]); np.random.seed(cfg["seed"]); torch.manual_seed(cfg["seed"])
    net = PolicyValueNet()
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"], weight_decay=cfg["l2"])
    window = deque(maxlen=cfg["window"])
    worker = SelfPlayWorker(net, cfg)
    moves, t0 = 0, time.time()
    for i, game in enumerate(worker.games(), 1):
        window.extend(game)
        moves += len(game)
        lp = lv = float("nan")
        if len(window) >= cfg["batch_size"]:
            for _ in range(cfg["updates_per_game"]):
                lp, lv = update(net, opt, window, cfg)
        if i % 5 == 0:
            print(f"game {i:4d} moves {moves:6d} pi {lp:.3f} v {lv:.3f} "
                  f"{moves / (time.time() - t0):.1f} moves/s", flush=True)
        if i == cfg["games"]:
            torch.save(net.state_dict(), "fourzero.pt")
            break


if __name__ == "__main__":
    main()
