import copy
import math

import numpy as np


class Node:
    __slots__ = ("game", "prior", "n", "w", "kids")

    def __init__(self, game, prior):
        self.game = game
        self.prior = prior
        self.n = 0
        self.w = 0.0        # from the point of view of the player who moved INTO this node
        self.kids = {}

    def q(self):
        return self.w / self.n if self.n else 0.0


class MCTS:
    def __init__(self, net, sims=32, c_puct=1.6, alpha=0.8, eps=0.25, rng=None):
        self.net, self.sims, self.c = net, sims, c_puct
        self.alpha, self.eps = alpha, eps
        self.rng = rng or np.random.default_rng()

    def _expand(self, node):
        g = node.game
        if g.over:
            return -1.0 if g.winner else 0.0
        probs, v = self.net.predict(g)
        moves = g.legal()
        z = sum(probs[m] for m in moves) + 1e-8
        for m in moves:
            nxt = copy.deepcopy(g)
            nxt.play(m)
            node.kids[m] = Node(nxt, probs[m] / z)
        return v

    def _pick(self, node):
        sq = math.sqrt(node.n + 1)
        best, bk = -1e9, None
        for k in node.kids.values():
            u = k.q() + self.c * k.prior * sq / (1 + k.n)
            if u > best:
                best, bk = u, k
        return bk

    def run(self, game, noise=True):
        root = Node(copy.deepcopy(game), 1.0)
        self._expand(root)
        if noise and root.kids:
            d = self.rng.dirichlet([self.alpha] * len(root.kids))
            for k, x in zip(root.kids.values(), d):
                k.prior = (1 - self.eps) * k.prior + self.eps * float(x)
        for _ in range(self.sims):
            node, path = root, [root]
            while node.kids:
                node = self._pick(node)
                path.append(node)
            v = self._expand(node)
            # v is for the player to move at the leaf
            for nd in reversed(path):
                v = -v
                nd.n += 1
                nd.w += v
        pi = np.zeros(7, dtype=np.float32)
        for m, k in root.kids.items():
            pi[m] = k.n
        return pi / pi.sum()
