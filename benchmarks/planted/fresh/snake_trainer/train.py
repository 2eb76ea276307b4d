import random
import time

import numpy as np
import torch

from game import BLOCK, CLOCK, DELTA, Point, SnakeGameAI
from memory import Memory
from model import Linear_QNet, QTrainer

MAX_MEMORY = 100_000
WARMUP_FRAMES = 60_000      # frames from the random player before the first update
BATCH_SIZE = 64
LR = 0.0005


class Agent:
    def __init__(self):
        self.n_games = 0
        self.epsilon = 0.4
        self.gamma = 0.9
        self.memory = Memory(MAX_MEMORY, 11)
        self.model = Linear_QNet(11, 128, 3)
        self.target = Linear_QNet(11, 128, 3)
        self.trainer = QTrainer(self.model, self.target, LR, self.gamma)
        self.sync()

    def sync(self):
        self.target.load_state_dict(self.model.state_dict())

    def get_state(self, game):
        head = game.snake[0]
        i = CLOCK.index(game.direction)
        danger = []
        for turn in (0, 1, -1):
            dx, dy = DELTA[CLOCK[(i + turn) % 4]]
            danger.append(game.is_collision(Point(head.x + dx, head.y + dy)))
        onehot = [j == i for j in range(4)]
        food = [game.food.x < head.x, game.food.x > head.x, game.food.y < head.y, game.food.y > head.y]
        return np.array(danger + onehot + food, dtype=np.float32)

    def remember(self, *transition):
        self.memory.remember(*transition)

    def learn(self):
        return self.trainer.train_step(*self.memory.sample(BATCH_SIZE))

    def get_action(self, state):
        if random.random() < self.epsilon:
            return random.choices((0, 1, 2), (4, 1, 1))[0]
        with torch.no_grad():
            return int(self.model(torch.from_numpy(state)).argmax())


def warmup(agent, game, frames):
    state = agent.get_state(game)
    for _ in range(frames):
        action = random.choices((0, 1, 2), (4, 1, 1))[0]
        reward, done, _ = game.play_step(action)
        if done:
            game.reset()
        nxt = agent.get_state(game)
        agent.remember(state, action, reward, nxt, done)
        state = nxt
    game.reset()


def train():
    torch.set_num_threads(1)
    random.seed(1); np.random.seed(1); torch.manual_seed(1)
    agent, game = Agent(), SnakeGameAI()
    warmup(agent, game, WARMUP_FRAMES)
    print("warm start done,", len(agent.memory), "frames in memory", flush=True)
    frames, record, total, t0 = 0, 0, 0, time.time()
    state = agent.get_state(game)
    while agent.n_games < 20_000:
        action = agent.get_action(state)
        reward, done, score = game.play_step(action)
        nxt = agent.get_state(game)
        agent.remember(state, action, reward, nxt, done)
        state = nxt
        frames += 1
        if frames % 2 == 0:
            agent.learn()
        if frames % 500 == 0:
            agent.sync()
        if done:
            game.reset()
            state = agent.get_state(game)
            agent.n_games += 1
            agent.epsilon = max(0.02, agent.epsilon * 0.99)
            total += score
            if score > record:
                record = score
                agent.model.save()
            if agent.n_games % 10 == 0:
                print(f"Game {agent.n_games} Frames {frames} Score {score} Record {record} "
                      f"Mean {total / agent.n_games:.2f} {frames / (time.time() - t0):.0f} fps", flush=True)


if __name__ == "__main__":
    train()
