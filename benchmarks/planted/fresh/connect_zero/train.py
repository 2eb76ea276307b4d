"""AlphaZero-style self-play on Connect Four.  python train.py"""
import random
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from c4.env import ConnectFour
from c4.net import PVNet
from c4.search import MCTS

torch.set_num_threads(1)


@dataclass
class Config:
    games: int = 100_000
    sims: int = 32
    temp_moves: int = 8
    buffer: int = 8000
    batch: int = 64
    updates_per_game: int = 6
    lr: float = 2e-3
    seed: int = 3


def self_play(env, mcts, cfg):
    env.reset()
    record = []
    while not env.over:
        agent = env.agent_selection
        pi = mcts.run(env)
        record.append((env.planes(agent), pi, agent))
        if len(record) <= cfg.temp_moves:
            move = int(np.random.choice(7, p=pi / pi.sum()))
        else:
            move = int(pi.argmax())
        env.step(move)
    out = []
    for planes, pi, agent in record:
        z = env.rewards[agent]
        out.append((planes, pi, z))
        out.append((planes[:, :, ::-1].copy(), pi[::-1].copy(), z))
    return out, len(record)


def learn(net, opt, memory, cfg):
    x, pi, z = zip(*random.sample(memory, cfg.batch))
    x = torch.from_numpy(np.stack(x))
    pi = torch.from_numpy(np.stack(pi))
    z = torch.tensor(z, dtype=torch.float32)
    logits, v = net(x)
    loss = -(pi * F.log_softmax(logits, -1)).sum(-1).mean() + F.mse_loss(v, z)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    cfg = Config()
    random.seed(cfg.seed), np.random.seed(cfg.seed), torch.manual_seed(cfg.seed)
    env, net = ConnectFour(), PVNet()
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, weight_decay=1e-4)
    mcts = MCTS(net, sims=cfg.sims)
    memory = deque(maxlen=cfg.buffer)
    moves, t0 = 0, time.time()
    for game in range(1, cfg.games + 1):
        samples, n = self_play(env, mcts, cfg)
        memory.extend(samples)
        moves += n
        loss = float("nan")
        if len(memory) >= cfg.batch:
            for _ in range(cfg.updates_per_game):
                loss = learn(net, opt, memory, cfg)
        if game % 5 == 0:
            print(f"game {game}  moves {moves}  loss {loss:.3f}  {moves / (time.time() - t0):.1f} moves/s", flush=True)


if __name__ == "__main__":
    main()
