# Double DQN for crazy eights: the learner sits on seat 0, seats 1-2 play at random
import copy
import random
import time

import numpy as np
import torch

from encode import legal_mask
from learner import Buffer, Learner
from table import Table

torch.set_num_threads(1)

CONFIG = dict(
    seed=11, width=128, lr=5e-4, gamma=0.97, batch=64, buffer=50_000, warmup=500, learn_every=2, sync=500,
    eps0=1.0, eps1=0.05, eps_moves=30_000, games=2_000_000, snapshot_games=2000, print_games=200,
)


def main(cfg):
    random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    table, learner, buffer = Table(cfg["seed"]), Learner(cfg), Buffer(cfg["buffer"], cfg["seed"])
    moves_made, wins, snapshots, t0 = 0, [], [], time.time()
    for game in range(1, cfg["games"] + 1):
        obs, moves = table.reset()
        done = False
        length = 0
        while not done:
            eps = cfg["eps0"] + (cfg["eps1"] - cfg["eps0"]) * min(1.0, moves_made / cfg["eps_moves"])
            if len(moves) == 1:
                a = moves[0]
            elif random.random() < eps:
                a = random.choice(moves)
            else:
                a = learner.best_move(obs, moves)
            obs2, rew, done, moves2 = table.step(a)
            length += 1
            if length >= 200:
                done = True
            buffer.add(obs, a, rew, obs2, legal_mask(moves2), done)
            obs, moves = obs2, moves2
            moves_made += 1
            if moves_made > cfg["warmup"] and moves_made % cfg["learn_every"] == 0:
                learner.update(buffer)
        wins.append(table.game.winner == 0)
        if game % cfg["snapshot_games"] == 0:
            snapshots.append(copy.deepcopy(learner.net.state_dict()))
            snapshots = snapshots[-5:]
        if game % cfg["print_games"] == 0:
            print(f"game {game} moves {moves_made} winrate {np.mean(wins[-1000:]):.3f} eps {eps:.2f} "
                  f"{moves_made / (time.time() - t0):.0f} moves/s", flush=True)


if __name__ == "__main__":
    main(CONFIG)
