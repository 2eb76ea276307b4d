import logging
import time

import hydra
import numpy as np
import torch
from omegaconf import DictConfig

from agent.dqn import Agent
from catcher import Catcher

log = logging.getLogger("train")
torch.set_num_threads(1)


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig):
    torch.manual_seed(cfg.seed)
    env = Catcher(cfg.env.width, cfg.env.height, cfg.env.n_fruit, seed=cfg.seed)
    agent = Agent(env.obs_size, env.action_count, cfg.agent, cfg.memory, cfg.seed)
    learn_start, train_every, target_every, log_every = (
        cfg.agent.learn_start, cfg.agent.train_every, cfg.agent.target_every, cfg.log_every)
    obs, score, scores, t0 = env.reset(), 0.0, [], time.time()
    for step in range(1, cfg.total_steps + 1):
        action = agent.act(obs, step)
        next_obs, reward, done, _ = env.step(action)
        agent.remember(obs, action, reward, next_obs, done)
        score += reward
        obs = next_obs
        if done:
            scores.append(score)
            obs, score = env.reset(), 0.0
        if step > learn_start and step % train_every == 0:
            agent.learn(step)
        if step % target_every == 0:
            agent.sync()
        if step % log_every == 0:
            log.info("step %d  score %.2f  %.0f steps/s", step, np.mean(scores[-20:]), step / (time.time() - t0))


if __name__ == "__main__":
    main()
