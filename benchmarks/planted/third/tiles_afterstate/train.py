"""TD(0) on afterstates for the tile game, a handful of games side by side."""
import copy
import math
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

from game import TileGame
from planner import lookahead
from value import AfterstateMemory, ValueNet, encode

SEED = 7
GAMES = 16
BATCH = 256
LR = 5e-4
GAMMA = 0.99
EPS_START, EPS_END, EPS_STEPS = 0.3, 0.01, 20_000
TOTAL_ROUNDS = 500_000


def reward_of(points):
    return math.log2(points + 1) / 10


class Player:
    """A game in progress together with the last afterstate it left behind."""

    def __init__(self, seed):
        self.game = TileGame(seed)
        self.before = None

    def restart(self):
        self.game.new_game()
        self.before = None


def choose(players, net, eps):
    """For each player the chosen (points, successor), or None when no move is left."""
    options = [lookahead(p.game) for p in players]
    boards = [child.board for opts in options for _, child in opts]
    if boards:
        with torch.no_grad():
            values = net(encode(boards)).tolist()
    picks, k = [], 0
    for opts in options:
        if not opts:
            picks.append(None)
            continue
        if random.random() < eps:
            picks.append(random.choice(opts))
        else:
            scores = [reward_of(pts) + GAMMA * values[k + i] for i, (pts, _) in enumerate(opts)]
            picks.append(opts[int(np.argmax(scores))])
        k += len(opts)
    return picks


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    net = ValueNet()
    target = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=LR, fused=True)
    memory = AfterstateMemory(100_000, SEED)
    players = [Player(SEED * 1000 + i) for i in range(GAMES)]
    scores, moves, t0 = [], 0, time.time()

    for rnd in range(1, TOTAL_ROUNDS + 1):
        eps = max(EPS_END, EPS_START + (EPS_END - EPS_START) * rnd / EPS_STEPS)
        for player, pick in zip(players, choose(players, net, eps)):
            if pick is None:
                if player.before is not None:
                    memory.add(player.before, 0.0, None, 1.0)
                scores.append(player.game.score)
                player.restart()
                continue
            points, child = pick
            if player.before is not None:
                memory.add(player.before, reward_of(points), child.board, 0.0)
            player.before = [row[:] for row in child.board]
            player.game.board, player.game.score = child.board, child.score
            player.game.moves += 1
            player.game.spawn()
            moves += 1

        if memory.n >= 1000:
            s, r, s2, end = memory.sample(BATCH)
            with torch.no_grad():
                y = r + GAMMA * (1 - end) * target(s2)
            loss = F.smooth_l1_loss(net(s), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rnd % 500 == 0:
                target.load_state_dict(net.state_dict())
        if rnd % 200 == 0:
            recent = scores[-100:]
            print(f"round {rnd:6d} moves {moves:8d} score {np.mean(recent) if recent else 0:8.1f} "
                  f"best {max(scores, default=0):6d} moves/s {moves / (time.time() - t0):7.0f}", flush=True)


if __name__ == "__main__":
    main()
