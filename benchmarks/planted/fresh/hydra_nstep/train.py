import logging
import os
import time

import hydra
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from src.agent import NStepDQN
from src.pellet_env import PelletEnv

log = logging.getLogger(__name__)
HERE = os.path.dirname(os.path.abspath(__file__))


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig):
    log.info("\n%s", OmegaConf.to_yaml(cfg))
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    env = PelletEnv(**cfg.env, seed=cfg.seed)
    agent = NStepDQN(env.obs_shape, env.n_actions, cfg.agent)
    ckpt_dir = os.path.join(HERE, cfg.checkpoint.dir)
    os.makedirs(ckpt_dir, exist_ok=True)
    path = os.path.join(ckpt_dir, cfg.checkpoint.name)

    obs, ep_return, returns, episode, t0 = env.reset(), 0.0, [], 0, time.time()
    for step in range(1, cfg.total_steps + 1):
        action = agent.act(obs)
        next_obs, reward, done, _ = env.step(action)
        agent.observe(obs, action, reward, next_obs, done)
        obs = next_obs
        ep_return += reward
        if done:
            episode += 1
            returns.append(ep_return)
            ep_return, obs = 0.0, env.reset()
            if episode % cfg.checkpoint.every_episodes == 0:
                agent.save(path)
        if step % cfg.log_every == 0:
            log.info("step %d episode %d return %.2f eps %.2f sps %.0f", step, episode,
                     np.mean(returns[-50:]), agent.eps, step / (time.time() - t0))


if __name__ == "__main__":
    main()
