import random
import time
from collections import deque
from pathlib import Path

import torch
import yaml

from agent import DriverAgent
from yard import Yard


def run_shift(yard, agent):
    obs, over, total, n = yard.begin(), False, 0.0, 0
    while not over:
        action = agent.choose(obs)
        next_obs, reward, over = yard.tick(action)
        agent.observe(obs, action, reward, next_obs, over)
        obs = next_obs
        total += reward
        n += 1
    return total, n


def main():
    settings = yaml.safe_load((Path(__file__).parent / "settings.yaml").read_text())
    random.seed(settings["seed"])
    torch.manual_seed(settings["seed"])
    torch.set_num_threads(1)
    yard = Yard(seed=settings["seed"])
    agent = DriverAgent(Yard.OBS, len(Yard.MOVES), settings)

    recent = deque(maxlen=50)
    began = shown = time.monotonic()
    for shift in range(1, settings["shifts"] + 1):
        total, n = run_shift(yard, agent)
        recent.append((total, n))
        now = time.monotonic()
        if now - shown > 1.0:
            shown = now
            score = sum(t for t, _ in recent) / len(recent)
            length = sum(n for _, n in recent) / len(recent)
            print(f"{now - began:6.1f} s | shift {shift:5d} | ticks {agent.ticks:7d} | score {score:6.2f} | length {length:5.1f} | loss {agent.last_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
