import random

from cards import DRAW, CrazyEights
from encode import encode


class Table:
    """the game seen from seat 0: step() runs until it's the learner's turn again"""

    def __init__(self, seed):
        self.game = CrazyEights(seed=seed)
        self.rnd = random.Random(seed)

    def reset(self):
        self.game.new_game()
        return encode(self.game, 0), self.game.legal()

    def step(self, move):
        g = self.game
        g.play(move)
        while not g.over and g.turn != 0:
            g.play(self._other())
        obs = encode(g, 0)
        if g.over:
            return obs, (1.0 if g.winner == 0 else -0.5), True, [DRAW]
        return obs, -0.01, False, g.legal()

    def _other(self):
        moves = self.game.legal()
        if len(moves) == 1:
            return moves[0]
        return moves[self.rnd.randrange(len(moves) - 1)]
