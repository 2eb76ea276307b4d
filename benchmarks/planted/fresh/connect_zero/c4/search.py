import copy
import math

import numpy as np


class Node:
    __slots__ = ("prior", "n", "w", "children")

    def __init__(self, prior):
        self.prior = prior
        self.n = 0
        self.w = 0.0
        self.children = {}

    @property
    def q(self):
        return self.w / self.n if self.n else 0.0


class MCTS:
    def __init__(self, net, sims=32, c_puct=1.5, noise=0.25, alpha=0.8):
        self.net, self.sims, self.c_puct = net, sims, c_puct
        self.noise, self.alpha = noise, alpha

    def _expand(self, node, env):
        p, v = self.net.predict(env.planes(env.agent_selection))
        moves = env.legal_moves()
        tot = sum(p[m] for m in moves) + 1e-8
        node.children = {m: Node(float(p[m]) / tot) for m in moves}
        return v

    def _select(self, node):
        s = math.sqrt(node.n + 1)
        best, best_score = None, -1e9
        for m, ch in node.children.items():
            score = -ch.q + self.c_puct * ch.prior * s / (1 + ch.n)
            if score > best_score:
                best, best_score = (m, ch), score
        return best

    def run(self, env):
        root = Node(1.0)
        self._expand(root, env)
        eta = np.random.dirichlet([self.alpha] * len(root.children))
        for ch, e in zip(root.children.values(), eta):
            ch.prior = (1 - self.noise) * ch.prior + self.noise * e
        for _ in range(self.sims):
            sim = copy.deepcopy(env)
            node, path = root, [root]
            while node.children and not sim.over:
                move, node = self._select(node)
                sim.step(move)
                path.append(node)
            if sim.over:
                # value seen from the side to move: the previous player has just won, or it is a draw
                v = -1.0 if any(sim.rewards.values()) else 0.0
            else:
                v = self._expand(node, sim)
            for nd in reversed(path):
                nd.n += 1
                nd.w += v
                v = -v
        counts = np.zeros(7, dtype=np.float32)
        for m, ch in root.children.items():
            counts[m] = ch.n
        return counts / counts.sum()
