import logging
import os
import time

import gymnasium as gym
import numpy as np
import torch
import yaml

from replay import Replay
from td3 import TD3

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
torch.set_num_threads(1)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.yaml")) as f:
        cfg = yaml.safe_load(f)
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    env = gym.make(cfg["env"])
    s_dim, a_dim = env.observation_space.shape[0], env.action_space.shape[0]
    a_max = float(env.action_space.high[0])
    agent = TD3(s_dim, a_dim, a_max, cfg)
    replay = Replay(cfg["buffer_size"], s_dim, a_dim, cfg["seed"])
    s, _ = env.reset(seed=cfg["seed"])
    ep_ret, rets, t0 = 0.0, [], time.time()
    for step in range(1, cfg["total_steps"] + 1):
        if step <= cfg["start_steps"]:
            a = rng.uniform(-a_max, a_max, a_dim).astype(np.float32)
        else:
            a = agent.act(s) + rng.normal(0, cfg["expl_noise"] * a_max, a_dim).astype(np.float32)
            a = a.clip(-a_max, a_max)
        s2, r, term, trunc, _ = env.step(a)
        replay.add(s, a / a_max, r * 0.1, s2, float(not term))
        s = s2
        ep_ret += r
        if step > cfg["start_steps"] and step % cfg["train_every"] == 0:
            for _ in range(cfg["gradient_steps"]):
                agent.train(replay)
        if term or trunc:
            rets.append(ep_ret)
            ep_ret = 0.0
            s, _ = env.reset()
            if len(rets) % cfg["log_episodes"] == 0:
                logging.info("step %d return %.1f (%.0f steps/s)", step, np.mean(rets[-10:]), step / (time.time() - t0))


if __name__ == "__main__":
    main()
