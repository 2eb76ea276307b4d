import random

SUITS, RANKS = 4, 13
DRAW = 52
N_ACTIONS = 53


class CrazyEights:
    """three players; play a card of the same suit or rank, an eight always, otherwise draw one"""

    def __init__(self, n_players=3, hand=5, seed=None):
        self.n_players = n_players
        self.hand_size = hand
        self.rnd = random.Random(seed)

    def new_game(self):
        self.stock = list(range(52))
        self.rnd.shuffle(self.stock)
        self.hands = [set(self.stock.pop() for _ in range(self.hand_size)) for _ in range(self.n_players)]
        self.pile = [self.stock.pop()]
        self.turn = 0
        self.passes = 0
        self.winner = None

    @property
    def over(self):
        return self.winner is not None

    def legal(self, player=None):
        hand = self.hands[self.turn if player is None else player]
        top = self.pile[-1]
        suit, rank = top // RANKS, top % RANKS
        return [c for c in hand if c // RANKS == suit or c % RANKS == rank or c % RANKS == 7] + [DRAW]

    def play(self, move):
        """returns True if the mover has won"""
        p = self.turn
        if move == DRAW:
            if not self.stock and len(self.pile) > 1:
                self.stock = self.pile[:-1]
                self.pile = self.pile[-1:]
                self.rnd.shuffle(self.stock)
            if self.stock:
                self.hands[p].add(self.stock.pop())
                self.passes = 0
            else:
                self.passes += 1
        else:
            self.hands[p].remove(move)
            self.pile.append(move)
            self.passes = 0
            if not self.hands[p]:
                self.winner = p
                return True
        if self.passes >= self.n_players:
            self.winner = min(range(self.n_players), key=lambda q: len(self.hands[q]))
        self.turn = (p + 1) % self.n_players
        return self.winner == p
