import numpy as np

from cards import N_ACTIONS

OBS = 52 + 52 + 3


def encode(game, player):
    x = np.zeros(OBS, dtype=np.float32)
    x[list(game.hands[player])] = 1.0
    x[52 + game.pile[-1]] = 1.0
    for k in range(game.n_players):
        x[104 + k] = len(game.hands[(player + k) % game.n_players]) / 10.0
    return x


def legal_mask(moves):
    m = np.zeros(N_ACTIONS, dtype=bool)
    m[moves] = True
    return m
