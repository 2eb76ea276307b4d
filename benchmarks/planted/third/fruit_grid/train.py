import copy
import random
import time

import torch
import torch.nn as nn

from game import SIZE, FruitGame
from memory import Memory
from model import BoardNet

MAX_MEMORY = 50_000
BATCH_SIZE = 64
LR = 5e-4
GAMMA = 0.95
LEARN_FROM = 500
SYNC_EVERY = 500
EPS_FRAMES = 30_000


class Agent:
    def __init__(self):
        self.frames = 0
        self.memory = Memory(MAX_MEMORY)
        self.model = BoardNet(SIZE)
        self.target = copy.deepcopy(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR, fused=True)
        self.criterion = nn.SmoothL1Loss()

    def epsilon(self):
        return max(0.02, 1.0 - self.frames / EPS_FRAMES)

    def get_action(self, state):
        if random.random() < self.epsilon():
            return random.randrange(3)
        with torch.no_grad():
            return self.model(torch.from_numpy(state).unsqueeze(0)).argmax().item()

    def train_step(self):
        state, action, reward, next_state, over = self.memory.sample(BATCH_SIZE)
        with torch.no_grad():
            target = reward + GAMMA * (1 - over) * self.target(next_state).max(1).values
        pred = self.model(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = self.criterion(pred, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def train(seed=4, max_frames=2_000_000):
    random.seed(seed)
    torch.manual_seed(seed)
    game, agent = FruitGame(seed), Agent()
    record, total, games, start = 0, 0, 0, time.time()
    state = game.state()
    while agent.frames < max_frames:
        action = agent.get_action(state)
        reward, over, score = game.play_step(action)
        next_state = game.state()
        agent.memory.push(state, action, reward, next_state, over)
        agent.frames += 1
        if len(agent.memory) >= LEARN_FROM:
            agent.train_step()
        if agent.frames % SYNC_EVERY == 0:
            agent.target.load_state_dict(agent.model.state_dict())
        state = next_state
        if over:
            game.reset()
            state = game.state()
            games += 1
            total += score
            if score > record:
                record = score
                torch.save(agent.model.state_dict(), "best.pth")
            if games % 50 == 0:
                print(f"Game {games}  Score {score}  Record {record}  Mean {total / games:.3f}  "
                      f"Frames {agent.frames}  Time {time.time() - start:.0f}s", flush=True)


if __name__ == "__main__":
    train()
