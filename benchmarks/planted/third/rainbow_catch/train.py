#!/usr/bin/env python
import logging
import time

import numpy as np
import torch

from catch_env import DoubleCatch
from rainbow.agent import RainbowAgent
from rainbow.replay import PrioritizedReplay

CFG = {
    "seed": 21,
    "total_steps": 3_000_000,
    "warmup": 1_000,
    "batch": 128,
    "train_freq": 2,
    "replay": 100_000,
    "gamma": 0.99,
    "n_step": 3,
    "alpha": 0.5,
    "beta": (0.4, 1.0),
    "lr": 3e-4,
    "hidden": 96,
    "target_every": 1_000,
    "eps": (1.0, 0.02, 15_000),
}

log = logging.getLogger("rainbow")


def linear(start, end, steps, t):
    return start + (end - start) * min(1.0, t / steps)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)
    rng = np.random.default_rng(cfg["seed"])
    env = DoubleCatch(seed=cfg["seed"])
    agent = RainbowAgent(env.obs_size, env.n_actions, cfg)
    replay = PrioritizedReplay(cfg["replay"], env.obs_size, cfg["alpha"], cfg["n_step"], cfg["gamma"], cfg["seed"])

    obs, episode_return, returns, err = env.reset(), 0.0, [], np.zeros(1)
    last = time.perf_counter()
    for step in range(1, cfg["total_steps"] + 1):
        action = agent.act(obs, linear(*cfg["eps"], step), rng)
        next_obs, reward, done, info = env.step(action)
        replay.add(obs, action, reward, next_obs, done)
        episode_return += reward
        obs = next_obs
        if done:
            returns.append(episode_return)
            obs, episode_return = env.reset(), 0.0

        if step > cfg["warmup"] and step % cfg["train_freq"] == 0:
            beta = linear(*cfg["beta"], cfg["total_steps"], step)
            idx, weights, batch = replay.sample(cfg["batch"], beta)
            err = agent.learn(batch, weights)
            replay.update_priorities(idx, err)

        if step % 1000 == 0:
            now = time.perf_counter()
            log.info("step %d | return(100) %.2f | td %.3f | %.0f steps/s", step, np.mean(returns[-100:]), err.mean(), 1000 / (now - last))
            last = now


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    main(CFG)
