import os
import time

import numpy as np
import torch
import yaml

from src.networks import MultiHeadPolicy
from src.ppo import PPO
from src.warehouse import Warehouse

HERE = os.path.dirname(os.path.abspath(__file__))


def load(path):
    with open(os.path.join(HERE, path)) as f:
        return yaml.safe_load(f)


def main():
    cfg = load("conf/config.yaml")
    env_cfg, algo_cfg = load(cfg["env"]), load(cfg["algo"])
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    env = Warehouse(**env_cfg, seed=cfg["seed"])
    policy = MultiHeadPolicy(env.obs_dim, env.n_items, env.n_levels, algo_cfg["hidden"])
    algo = PPO(env, policy, algo_cfg)
    start = time.time()
    for it in range(1, cfg["iterations"] + 1):
        last = algo.collect()
        loss = algo.update(last)
        if it % cfg["log_interval"] == 0:
            steps = it * algo_cfg["horizon"] * env.n
            mean = np.mean(algo.totals[-200:]) if algo.totals else float("nan")
            print(f"[{it:5d}] steps={steps} profit={mean:.2f} loss={loss:.3f} sps={steps / (time.time() - start):.0f}", flush=True)


if __name__ == "__main__":
    main()
