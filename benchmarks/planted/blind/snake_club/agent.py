import random

import numpy as np
import torch

from model import Linear_QNet, QTrainer
from snake_game import CLOCKWISE, DELTA, Point

N_FEAT = 11


class Memory:
    def __init__(self, cap):
        self.cap = cap
        self.s = np.zeros((cap, N_FEAT), np.float32)
        self.s2 = np.zeros((cap, N_FEAT), np.float32)
        self.a = np.zeros(cap, np.int64)
        self.r = np.zeros(cap, np.float32)
        self.d = np.zeros(cap, bool)
        self.i = 0
        self.n = 0

    def add(self, s, a, r, s2, d):
        i = self.i
        self.s[i] = s
        self.a[i] = a
        self.r[i] = r
        self.s2[i] = s2
        self.d[i] = d
        self.i = (i + 1) % self.cap
        self.n = min(self.n + 1, self.cap)

    def draw(self, k):
        j = np.random.randint(0, self.n, k)
        return self.s[j], self.a[j], self.r[j], self.s2[j], self.d[j]


class Agent:
    def __init__(self, cfg):
        self.cfg = cfg
        self.n_games = 0
        self.epsilon = 1.0
        self.memory = Memory(cfg["memory"])
        self.model = Linear_QNet(N_FEAT, cfg["hidden"], 3)
        self.trainer = QTrainer(self.model, lr=cfg["lr"], gamma=cfg["gamma"])

    def get_state(self, game):
        hx, hy = game.head
        i = CLOCKWISE.index(game.direction)

        def danger(k):
            dx, dy = DELTA[CLOCKWISE[(i + k) % 4]]
            return game.is_collision(Point(hx + dx, hy + dy))

        return (
            danger(0), danger(1), danger(-1),
            i == 2, i == 0, i == 3, i == 1,
            game.food.x < hx, game.food.x > hx, game.food.y < hy, game.food.y > hy,
        )

    def get_action(self, state):
        # tradeoff exploration / exploitation
        self.epsilon = max(0.02, 1.0 - self.n_games / 150)
        if random.random() < self.epsilon:
            return random.randint(0, 2)
        with torch.inference_mode():
            return int(self.model(torch.tensor(state, dtype=torch.float32)).argmax())
