"""DRQN on the cue corridor."""
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from drqn import DRQN, Episode, EpisodeReplay
from env import CorridorBatch


@dataclass
class Config:
    n_envs: int = 16
    horizon: int = 32
    batch: int = 32
    updates_per_round: int = 4
    warmup_rounds: int = 4
    rounds: int = 200_000
    capacity: int = 6_000
    eps_start: float = 1.0
    eps_end: float = 0.03
    eps_rounds: int = 600
    seed: int = 5


def rollouts(env, agent, cfg):
    """Plays for ever; yields one batch of finished episodes after the other."""
    for k in range(cfg.rounds):
        eps = max(cfg.eps_end, cfg.eps_start - (cfg.eps_start - cfg.eps_end) * k / cfg.eps_rounds)
        obs, state, done = env.reset(), None, False
        all_obs, all_action, all_reward = [obs], [], []
        while not done:
            action, state = agent.act(obs, state, eps)
            obs, reward, done = env.step(action)
            all_obs.append(obs)
            all_action.append(action)
            all_reward.append(reward)
        yield Episode(np.stack(all_obs, 1), np.stack(all_action, 1), np.stack(all_reward, 1))


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    env = CorridorBatch(cfg.n_envs, cfg.horizon, cfg.seed)
    agent = DRQN(env.obs_dim, env.n_actions, seed=cfg.seed)
    replay = EpisodeReplay(cfg.capacity, cfg.horizon, env.obs_dim, cfg.seed)
    writer = SummaryWriter("runs/cue_drqn")

    start = last = time.time()
    returns, right, loss = [], [], None
    for k, episodes in enumerate(rollouts(env, agent, cfg), 1):
        replay.add(episodes)
        returns.append(episodes.reward.sum(1).mean())
        right.append((episodes.reward[:, -1] > 0).mean())
        if k > cfg.warmup_rounds:
            for _ in range(cfg.updates_per_round):
                loss = agent.update(*replay.sample(cfg.batch))
        if time.time() - last > 1.5:
            last = time.time()
            steps = k * cfg.n_envs * cfg.horizon
            writer.add_scalar("return", np.mean(returns[-20:]), steps)
            if loss is not None:
                writer.add_scalar("loss", loss.item(), steps)
            print(f"[{last - start:6.1f}s] env steps {steps:8d} return {np.mean(returns[-20:]):.3f} right door {np.mean(right[-20:]):.2f}", flush=True)


if __name__ == "__main__":
    main()
