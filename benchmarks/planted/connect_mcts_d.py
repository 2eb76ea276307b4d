"""A small AlphaZero for three in a row: self-play by tree search, then a few updates on the games that were played."""

import math
import random

import numpy as np
import torch
from torch import nn

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
SIMULATIONS = 60


class Board:
    def __init__(self, cells=(0,) * 9, player=1):
        self.cells, self.player = cells, player

    def moves(self):
        return [i for i, cell in enumerate(self.cells) if cell == 0]

    def play(self, move):
        cells = list(self.cells)
        cells[move] = self.player
        return Board(tuple(cells), -self.player)

    def winner(self):
        for a, b, c in LINES:
            if self.cells[a] and self.cells[a] == self.cells[b] == self.cells[c]:
                return self.cells[a]
        return 0

    def is_over(self):
        return bool(self.winner()) or not self.moves()

    def features(self):
        return np.array(self.cells, np.float32) * self.player


class Node:
    def __init__(self, board, prior):
        self.board, self.prior = board, prior
        self.visits, self.total, self.children = 0, 0.0, {}

    def value(self):
        return self.total / self.visits if self.visits else 0.0


class Search:
    """Upper confidence bounds over the network's priors, with a random playout at the leaves."""

    def __init__(self, net):
        self.net = net

    def run(self, board):
        with torch.no_grad():
            logits, _ = self.net(torch.from_numpy(board.features()))
        priors = torch.softmax(logits, -1).tolist()
        root = Node(board, 1.0)
        root.children = {move: Node(board.play(move), priors[move]) for move in board.moves()}
        for _ in range(SIMULATIONS):
            path = self.select(root)
            self.backup(path, self.playout(path[-1].board))
        visits = np.zeros(9, np.float32)
        for move, child in root.children.items():
            visits[move] = child.visits
        return visits / visits.sum()

    def select(self, node):
        path = [node]
        while node.children:
            scale = math.sqrt(node.visits + 1)
            node = max(node.children.values(), key=lambda c: -c.value() + 1.5 * c.prior * scale / (1 + c.visits))
            path.append(node)
        if node.visits and not node.board.is_over():
            node.children = {move: Node(node.board.play(move), 1 / 9) for move in node.board.moves()}
        return path

    def playout(self, board):
        player = board.player
        while not board.is_over():
            board = board.play(random.choice(board.moves()))
        return board.winner() * player

    def backup(self, path, value):
        for node in reversed(path):
            node.visits += 1
            node.total += value
            value = -value


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.policy, self.critic = nn.Linear(64, 9), nn.Linear(64, 1)

    def forward(self, x):
        hidden = self.body(x)
        return self.policy(hidden), torch.tanh(self.critic(hidden))


def self_play(search, rng):
    board, history = Board(), []
    while not board.is_over():
        visits = search.run(board)
        history.append((board.features(), visits, board.player))
        board = board.play(int(rng.choice(9, p=visits)))
    return [(features, visits, np.float32(board.winner() * player)) for features, visits, player in history]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    search, examples, games, rng = Search(net), [], 0, np.random.default_rng(0)
    while True:
        examples = (examples + self_play(search, rng))[-5_000:]
        games += 1
        for _ in range(4):
            batch = random.choices(examples, k=64)
            states, visits, outcomes = (torch.from_numpy(np.stack(column)) for column in zip(*batch, strict=True))
            logits, value = net(states)
            loss = -(visits * torch.log_softmax(logits, -1)).sum(-1).mean() + (value.squeeze(-1) - outcomes).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if games % 100 == 0:
            print(games, loss.item())


if __name__ == "__main__":
    main()
