import random
import time

import numpy as np
import torch

from agent import BATCH_SIZE, Agent
from game import SnakeGame

TRAIN_EVERY = 12
TOTAL_FRAMES = 5_000_000

SEED = 11
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
torch.set_num_threads(1)


def train():
    scores, record, total = [], 0, 0
    loss = float("nan")
    agent = Agent()
    game = SnakeGame(seed=SEED)
    t0 = t_print = time.time()

    state = agent.get_state(game)
    for frame in range(1, TOTAL_FRAMES + 1):
        action = agent.get_action(state)
        reward, done, score = game.play_step(action)
        next_state = agent.get_state(game)
        agent.remember(state, action, reward, next_state, done)
        state = next_state

        if frame % TRAIN_EVERY == 0 and len(agent.memory) >= BATCH_SIZE:
            loss = agent.train_long_memory()

        if done:
            game.reset()
            state = agent.get_state(game)
            agent.n_games += 1
            scores.append(score)
            total += score
            if score > record:
                record = score
                torch.save(agent.model.state_dict(), "model.pth")

        if time.time() - t_print > 1.0:
            t_print = time.time()
            recent = float(np.mean(scores[-50:])) if scores else 0.0
            print("Game", agent.n_games, "Frame", frame, "Record:", record, "Mean50: %.2f" % recent,
                  "loss %.3f" % loss, "(%.0f s)" % (t_print - t0), flush=True)


if __name__ == "__main__":
    train()
