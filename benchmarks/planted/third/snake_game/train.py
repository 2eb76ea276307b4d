import os
import random

import numpy as np
import torch

from game import RIGHT, DOWN, LEFT, UP, STEP, SnakeGameAI
from model import Linear_QNet, Memory, QTrainer

MAX_MEMORY = 50_000
BATCH_SIZE = 64
LR = 0.001
TRAIN_EVERY = 8


class Agent:
    def __init__(self):
        self.n_steps = 0
        self.memory = Memory(MAX_MEMORY, 11)
        self.model = Linear_QNet(11, 128, 3)
        self.trainer = QTrainer(self.model, lr=LR, gamma=0.9)

    @property
    def epsilon(self):
        return max(0.02, 0.6 - self.n_steps / 20_000)

    def get_state(self, game):
        x, y = game.head
        d = game.direction
        ahead, right, left = d, (d + 1) % 4, (d - 1) % 4
        danger = [game.is_collision((x + STEP[k][0], y + STEP[k][1])) for k in (ahead, right, left)]
        fx, fy = game.food
        return np.array(danger + [d == LEFT, d == RIGHT, d == UP, d == DOWN, fx < x, fx > x, fy < y, fy > y],
                        dtype=np.float32)

    def get_action(self, state):
        if random.random() < self.epsilon:
            return random.randint(0, 2)
        with torch.no_grad():
            return int(self.model(torch.from_numpy(state)).argmax())

    def learn(self):
        if self.memory.n >= BATCH_SIZE * 4 and self.n_steps % TRAIN_EVERY == 0:
            self.trainer.train_step(self.memory.sample(BATCH_SIZE))


def train(games=1_000_000):
    random.seed(42)
    np.random.seed(42)
    torch.manual_seed(42)
    torch.set_num_threads(1)
    os.makedirs("out", exist_ok=True)
    agent = Agent()
    game = SnakeGameAI(seed=42)
    total = 0
    state = agent.get_state(game)
    while game.n_games < games:
        action = agent.get_action(state)
        reward, done, score = game.play_step(action)
        next_state = agent.get_state(game)
        agent.n_steps += 1
        agent.memory.push(state, action, reward, next_state, done)
        agent.learn()
        state = next_state
        if done:
            total += score
            if score > game.record:
                game.record = score
                game.screenshot("out/record.png")
                torch.save(agent.model.state_dict(), "out/model.pth")
            if game.n_games % 100 == 0:
                print("Game", game.n_games, "steps", agent.n_steps, "Score", score, "Record", game.record,
                      "Mean", round(total / game.n_games, 2), flush=True)
            game.reset()
            state = agent.get_state(game)


if __name__ == "__main__":
    train()
