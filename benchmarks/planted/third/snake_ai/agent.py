import random

import numpy as np
import torch

from game.snake import DELTA, DOWN, LEFT, RIGHT, UP, Point
from model import LinearQNet, QTrainer

MAX_MEMORY = 20_000
BATCH_SIZE = 128
LR = 0.001


class Memory:
    def __init__(self, capacity, n_state):
        self.state = np.zeros((capacity, n_state), dtype=np.float32)
        self.next_state = np.zeros((capacity, n_state), dtype=np.float32)
        self.action = np.zeros(capacity, dtype=np.int64)
        self.reward = np.zeros(capacity, dtype=np.float32)
        self.done = np.zeros(capacity, dtype=bool)
        self.capacity, self.n, self.full = capacity, 0, False

    def __len__(self):
        return self.capacity if self.full else self.n

    def remember(self, state, action, reward, next_state, done):
        i = self.n
        self.state[i], self.action[i], self.reward[i] = state, action, reward
        self.next_state[i], self.done[i] = next_state, done
        self.n = (i + 1) % self.capacity
        self.full = self.full or self.n == 0

    def batch(self, size):
        i = np.random.randint(0, len(self), size)
        return self.state[i], self.action[i], self.reward[i], self.next_state[i], self.done[i]


class Agent:
    def __init__(self):
        self.n_games = 0
        self.epsilon = 0.0
        self.memory = Memory(MAX_MEMORY, 11)
        self.model = LinearQNet(11, 256, 3)
        self.trainer = QTrainer(self.model, lr=LR, gamma=0.9)

    def get_state(self, game):
        head, d = game.head, game.direction
        ahead = []
        for turn in (0, 1, -1):
            dx, dy = DELTA[(d + turn) % 4]
            ahead.append(game.is_collision(Point(head.x + dx, head.y + dy)))
        return np.array(ahead + [
            d == LEFT, d == RIGHT, d == UP, d == DOWN,
            game.food.x < head.x, game.food.x > head.x, game.food.y < head.y, game.food.y > head.y,
        ], dtype=np.float32)

    def get_action(self, state):
        self.epsilon = max(0.02, 0.5 - self.n_games / 300)
        if random.random() < self.epsilon:
            return random.randrange(3)
        with torch.no_grad():
            return int(self.model(torch.from_numpy(state)).argmax())

    def remember(self, *transition):
        self.memory.remember(*transition)

    def train_long_memory(self):
        return self.trainer.train_step(*self.memory.batch(BATCH_SIZE))
