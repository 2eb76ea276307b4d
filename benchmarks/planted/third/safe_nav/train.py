from dataclasses import dataclass
import time

import numpy as np
import torch

from algo import SACLagrangian
from algo.replay import Replay
from nav_env import HazardNav


@dataclass
class Config:
    seed: int = 0
    steps: int = 1_000_000
    start_after: int = 1_000
    batch: int = 128
    buffer: int = 200_000
    report: int = 1_000


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    env = HazardNav()
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    algo = SACLagrangian(obs_dim, act_dim)
    replay = Replay(cfg.buffer, obs_dim, act_dim, cfg.seed)
    obs, _ = env.reset(seed=cfg.seed)
    ret = cost = 0.0
    returns, costs, t0 = [], [], time.time()

    for step in range(1, cfg.steps + 1):
        if step <= cfg.start_after:
            action = rng.uniform(-1, 1, act_dim).astype(np.float32)
        else:
            action = algo.act(obs)
        nxt, reward, terminated, truncated, info = env.step(action)
        replay.store(obs, action, nxt, reward, info["cost"])
        ret, cost, obs = ret + reward, cost + info["cost"], nxt
        if terminated or truncated:
            returns.append(ret)
            costs.append(cost)
            ret = cost = 0.0
            obs, _ = env.reset()
        if step > cfg.start_after:
            algo.train_on(replay.batch(cfg.batch))
        if step % cfg.report == 0 and returns:
            print(f"{step:8d}  return {np.mean(returns[-20:]):7.2f}  cost {np.mean(costs[-20:]):6.1f}  "
                  f"lambda {algo.dual.raw.item():5.2f}  {time.time() - t0:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
