import numpy as np

from .game import FourInARow
from .mcts import MCTS


class SelfPlayWorker:
    def __init__(self, net, cfg):
        self.cfg = cfg
        self.mcts = MCTS(net, cfg["n_sims"], cfg["c_puct"])

    def games(self):
        """Endless generator of finished games: list of (planes, pi, z)."""
        while True:
            game, trace = FourInARow(), []
            while not game.over:
                pi = self.mcts.search(game)
                trace.append((game.encode(), pi, game.turn))
                if len(trace) <= self.cfg["temp_moves"]:
                    col = int(np.random.choice(7, p=pi / pi.sum()))
                else:
                    col = int(pi.argmax())
                game.play(col)
            yield [(s, pi, game.result_for(p)) for s, pi, p in trace]
