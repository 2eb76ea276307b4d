import logging
import pathlib
import time

import numpy as np
import torch
import yaml

from agent import DDPG, Memory
from crawler import CrawlerBatch

log = logging.getLogger("crawler")


def main():
    cfg = yaml.safe_load(pathlib.Path(__file__).with_name("config.yaml").read_text())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    env = CrawlerBatch(cfg["env"]["num"], cfg["env"]["segments"], cfg["env"]["episode"], cfg["seed"])
    agent = DDPG(env.obs_dim, env.act_dim, cfg["model"], cfg["agent"], cfg["optim"])
    memory = Memory(cfg["agent"]["memory"], env.obs_dim, env.act_dim, cfg["seed"])
    log.info("%d parameters in %d tensors", sum(p.numel() for p in agent.actor_params + agent.critic_params),
             len(agent.actor_params) + len(agent.critic_params))

    obs, start, scores = env.reset(), time.time(), []
    for k in range(1, cfg["vector_steps"] + 1):
        act = agent.act(obs, rng)
        nxt, rew, done, ended = env.step(act)
        # episodes end by the clock only, so the value after the last step is bootstrapped from a fresh state
        memory.add(obs, act, rew, nxt)
        obs = nxt
        scores.extend(ended)
        if memory.size >= cfg["agent"]["warmup"]:
            critic_loss, actor_loss = agent.update(memory.draw(cfg["agent"]["batch"]))
        if k % cfg["log_every"] == 0:
            log.info("k %d steps %d score %.2f critic %.4f actor %.3f  %.0f steps/s", k, k * env.num,
                     np.mean(scores[-50:]) if scores else float("nan"), critic_loss, actor_loss,
                     k * env.num / (time.time() - start))
        if k % 20_000 == 0:
            torch.save(agent.actor_target.net.state_dict(), "actor.pt")


if __name__ == "__main__":
    main()
