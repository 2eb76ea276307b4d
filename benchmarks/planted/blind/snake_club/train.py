import logging
import os
import random
import time

import numpy as np
import torch

from agent import Agent
from snake_game import SnakeGameAI

HERE = os.path.dirname(os.path.abspath(__file__))
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("snake")

CONFIG = {
    "hidden": 256,
    "lr": 5e-4,
    "gamma": 0.9,
    "memory": 100_000,
    "batch": 64,
    "train_every": 4,
    "warmup": 1000,
    "max_steps": 10_000_000,
    "report": 1000,
    "save_best": True,
    "seed": 11,
}
# old values: hidden 128, lr 1e-3, batch 1000 once per game. learned slower


def train(cfg):
    random.seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)

    agent = Agent(cfg)
    game = SnakeGameAI(seed=cfg["seed"])
    record = 0
    scores = []
    last_loss = None
    state = agent.get_state(game)
    t_last = time.perf_counter()

    for step in range(1, cfg["max_steps"] + 1):
        a = agent.get_action(state)
        reward, over, score = game.play_step(a)
        new_state = agent.get_state(game)
        agent.memory.add(state, a, reward, new_state, over)
        state = new_state

        if step > cfg["warmup"] and step % cfg["train_every"] == 0:
            last_loss = agent.trainer.train_step(*_batch(agent, cfg["batch"]))

        if over:
            agent.n_games += 1
            scores.append(score)
            if score > record:
                record = score
                if cfg["save_best"] and agent.n_games > 50:
                    agent.model.save(os.path.join(HERE, "weights"))
            game.reset()
            state = agent.get_state(game)

        if step % cfg["report"] == 0:
            now = time.perf_counter()
            log.info("step %d games %d mean100 %.2f record %d eps %.2f loss %s (%.0f steps/s)",
                     step, agent.n_games, np.mean(scores[-100:]) if scores else 0, record, agent.epsilon,
                     "-" if last_loss is None else f"{last_loss.item():.3f}", cfg["report"] / (now - t_last))
            t_last = now


def _batch(agent, k):
    s, a, r, s2, d = agent.memory.draw(k)
    return s, a, r, s2, d


if __name__ == "__main__":
    try:
        train(CONFIG)
    except KeyboardInterrupt:
        log.info("stopped by hand")
