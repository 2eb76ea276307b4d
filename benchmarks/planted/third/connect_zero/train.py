"""Small AlphaZero for connect four: self-play with batched search, then a few gradient steps, repeat."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

from game import ConnectFour
from mcts import BatchedSearch
from net import PolicyValueNet


class PositionStore:
    """Ring of (board from the mover's view, search policy, result)."""

    def __init__(self, capacity, seed):
        self.boards = np.zeros((capacity, 6, 7), dtype=np.float32)
        self.policies = np.zeros((capacity, 7), dtype=np.float32)
        self.results = np.zeros(capacity, dtype=np.float32)
        self.capacity, self.pos, self.size = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, board, policy, result):
        i = self.pos
        self.boards[i], self.policies[i], self.results[i] = board, policy, result
        self.pos = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        idx = self.rng.integers(0, self.size, n)
        return self.boards[idx], torch.from_numpy(self.policies[idx]), torch.from_numpy(self.results[idx])


def learn(net, opt, store, batch):
    boards, policies, results = store.sample(batch)
    logits, values = net(net.encode(boards))
    policy_loss = -(policies * F.log_softmax(logits, -1)).sum(-1).mean()
    value_loss = F.mse_loss(values, results)
    loss = policy_loss + value_loss
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return policy_loss.item(), value_loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--games", type=int, default=16)
    p.add_argument("--simulations", type=int, default=24)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--updates", type=int, default=2, help="gradient steps per round of moves")
    p.add_argument("--moves", type=int, default=2_000_000)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()

    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    net = PolicyValueNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, weight_decay=1e-5)
    search = BatchedSearch(net, args.simulations, seed=args.seed)
    store = PositionStore(30_000, args.seed)
    games = [ConnectFour() for _ in range(args.games)]
    pending = [[] for _ in games]
    rng = np.random.default_rng(args.seed)

    moves, finished, lengths, losses = 0, 0, [], (0.0, 0.0)
    start = last = time.time()
    while moves < args.moves:
        policies = search.run(games)
        for i, game in enumerate(games):
            pi = policies[i]
            pending[i].append((np.array(game.board, dtype=np.float32) * game.player, pi, game.player))
            if len(game.history) < 10:
                move = int(rng.choice(7, p=pi / pi.sum()))
            else:
                move = int(pi.argmax())
            game.play(move)
            moves += 1
            if game.winner is not None:
                for board, policy, player in pending[i]:
                    store.add(board, policy, game.winner * player)
                finished += 1
                lengths.append(len(game.history))
                games[i], pending[i] = ConnectFour(), []
        if store.size >= args.batch:
            for _ in range(args.updates):
                losses = learn(net, opt, store, args.batch)
        if time.time() - last > 1.0:
            last = time.time()
            mean_len = np.mean(lengths[-100:]) if lengths else 0.0
            print(f"moves {moves:7d}  games {finished:5d}  length {mean_len:5.1f}  "
                  f"policy {losses[0]:.3f}  value {losses[1]:.3f}  {moves / (last - start):6.1f} moves/s", flush=True)


if __name__ == "__main__":
    main()
