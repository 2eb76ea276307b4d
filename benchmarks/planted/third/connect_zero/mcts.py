import copy
import math

import numpy as np
import torch


class Node:
    __slots__ = ("prior", "visits", "total", "children")

    def __init__(self, prior):
        self.prior = prior
        self.visits = 0
        self.total = 0.0
        self.children = None


def select_child(node, c_puct):
    scale = c_puct * math.sqrt(node.visits)
    best, best_score, best_move = None, -1e9, -1
    for move, child in node.children.items():
        q = -child.total / child.visits if child.visits else 0.0
        score = q + scale * child.prior / (1 + child.visits)
        if score > best_score:
            best, best_score, best_move = child, score, move
    return best_move, best


def backup(path, value):
    """`value` is seen from the side to move at the end of the path."""
    for node in reversed(path):
        node.visits += 1
        node.total += value
        value = -value


class BatchedSearch:
    """One tree per game; the leaves of all games are evaluated together."""

    def __init__(self, net, simulations=24, c_puct=1.6, alpha=0.8, eps=0.25, seed=0):
        self.net = net
        self.simulations = simulations
        self.c_puct = c_puct
        self.alpha, self.eps = alpha, eps
        self.rng = np.random.default_rng(seed)

    @torch.inference_mode()
    def evaluate(self, games):
        boards = np.array([g.board for g in games], dtype=np.float32)
        side = np.array([g.player for g in games], dtype=np.float32)
        boards *= side[:, None, None]
        logits, values = self.net(self.net.encode(boards))
        return logits.softmax(-1).tolist(), values.tolist()

    def expand(self, node, game, priors):
        legal = game.legal()
        norm = sum(priors[m] for m in legal) + 1e-8
        node.children = {m: Node(priors[m] / norm) for m in legal}

    def descend(self, root, start):
        game = copy.deepcopy(start)
        node, path = root, [root]
        while node.children and game.winner is None:
            move, node = select_child(node, self.c_puct)
            game.play(move)
            path.append(node)
        return game, path

    def run(self, games):
        """Visit distributions [n_games, 7] for the current positions."""
        roots = [Node(1.0) for _ in games]
        priors, _ = self.evaluate(games)
        for root, game, p in zip(roots, games, priors):
            self.expand(root, game, p)
            noise = self.rng.dirichlet([self.alpha] * len(root.children))
            for child, n in zip(root.children.values(), noise):
                child.prior = (1 - self.eps) * child.prior + self.eps * float(n)

        for _ in range(self.simulations):
            leaves = []
            for root, game in zip(roots, games):
                leaf, path = self.descend(root, game)
                if leaf.winner is None:
                    leaves.append((leaf, path))
                else:
                    backup(path, 0.0 if leaf.winner == 0 else -1.0)
            if leaves:
                priors, values = self.evaluate([leaf for leaf, _ in leaves])
                for (leaf, path), p, v in zip(leaves, priors, values):
                    self.expand(path[-1], leaf, p)
                    backup(path, v)

        counts = np.zeros((len(games), 7), dtype=np.float32)
        for i, root in enumerate(roots):
            for move, child in root.children.items():
                counts[i, move] = child.visits
        return counts / counts.sum(1, keepdims=True)
