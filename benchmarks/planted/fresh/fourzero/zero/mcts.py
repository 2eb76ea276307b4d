import copy
import math

import numpy as np


class Node:
    __slots__ = ("prior", "children", "visits", "total")

    def __init__(self, prior):
        self.prior = prior
        self.children = {}
        self.visits = 0
        self.total = 0.0

    @property
    def q(self):
        return self.total / self.visits if self.visits else 0.0


class MCTS:
    def __init__(self, net, n_sims, c_puct, alpha=0.8, eps=0.25):
        self.net, self.n_sims, self.c_puct = net, n_sims, c_puct
        self.alpha, self.eps = alpha, eps

    def select(self, node):
        best, best_score = None, -1e9
        scale = self.c_puct * math.sqrt(node.visits + 1)
        for col, ch in node.children.items():
            score = -ch.q + scale * ch.prior / (1 + ch.visits)
            if score > best_score:
                best, best_score = (col, ch), score
        return best

    def expand(self, node, game):
        probs, value = self.net.predict(game.encode())
        legal = game.legal_moves()
        s = sum(float(probs[c]) for c in legal) + 1e-8
        for c in legal:
            node.children[c] = Node(float(probs[c]) / s)
        return value

    def search(self, game):
        root = Node(1.0)
        self.expand(root, game)
        noise = np.random.dirichlet([self.alpha] * len(root.children))
        for ch, n in zip(root.children.values(), noise):
            ch.prior = (1 - self.eps) * ch.prior + self.eps * float(n)
        for _ in range(self.n_sims):
            sim = copy.deepcopy(game)
            node, path = root, [root]
            while node.children:
                col, node = self.select(node)
                sim.play(col)
                path.append(node)
            if sim.over:
                value = sim.result_for(sim.turn)
            else:
                value = self.expand(node, sim)
            for n in reversed(path):
                n.visits += 1
                n.total += value
                value = -value
        visits = np.zeros(7, dtype=np.float32)
        for c, ch in root.children.items():
            visits[c] = ch.visits
        return visits / visits.sum()
