import copy
import math


class Node:
    __slots__ = ("prior", "n", "w", "kids", "game")

    def __init__(self, prior):
        self.prior = prior
        self.n = 0
        self.w = 0.0
        self.kids = {}
        self.game = None


def pick(node, c):
    best, act, child = -1e9, None, None
    root = c * math.sqrt(node.n + 1)
    for a, k in node.kids.items():
        q = -k.w / k.n if k.n else 0.0
        s = q + root * k.prior / (1 + k.n)
        if s > best:
            best, act, child = s, a, k
    return act, child


class Search:
    """one tree. descend() gives the leaf to be evaluated, the evaluation is done for all trees at once outside"""

    def __init__(self, game, c=1.6):
        self.c = c
        self.root = Node(1.0)
        self.root.game = copy.deepcopy(game)

    def descend(self):
        node = self.root
        path = [node]
        game = copy.deepcopy(node.game)
        while node.kids:
            a, node = pick(node, self.c)
            game.play(a)
            path.append(node)
        self.path = path
        self.leaf = game
        return game

    def grow(self, priors, value):
        node = self.path[-1]
        if self.leaf.winner is None:
            legal = self.leaf.legal()
            z = sum(priors[a] for a in legal) + 1e-8
            for a in legal:
                node.kids[a] = Node(priors[a] / z)
        else:
            value = 0.0 if self.leaf.winner == 0 else -1.0      # side to move has lost
        for nd in reversed(self.path):
            nd.n += 1
            nd.w += value
            value = -value

    def counts(self):
        v = [0.0] * 7
        for a, k in self.root.kids.items():
            v[a] = float(k.n)
        s = sum(v)
        return [x / s for x in v]
