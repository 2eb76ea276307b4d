"""PPO for the stockroom, with Tianshou."""
import os
import pprint
from functools import partial

import numpy as np
import torch
import yaml
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from torch.utils.tensorboard import SummaryWriter

from stockroom.agent import build_ppo
from stockroom.env import StockroomEnv

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    with open(os.path.join(HERE, "settings.yaml")) as f:
        cfg = yaml.safe_load(f)
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])

    make = partial(StockroomEnv, **cfg["task"])
    train_envs = SubprocVectorEnv([make for _ in range(cfg["training_envs"])])
    test_envs = DummyVectorEnv([make for _ in range(cfg["test_envs"])])
    train_envs.seed(cfg["seed"])
    test_envs.seed(cfg["seed"] + 1000)

    algorithm = build_ppo(make(), cfg["agent"])
    buffer = VectorReplayBuffer(cfg["trainer"]["collection_step_num_env_steps"], cfg["training_envs"])
    train_collector = Collector(algorithm, train_envs, buffer)
    test_collector = Collector(algorithm, test_envs)

    log_dir = os.path.join(HERE, "log")
    logger = TensorboardLogger(SummaryWriter(log_dir), training_interval=2000, update_interval=20)

    def save_best(algo):
        torch.save(algo.state_dict(), os.path.join(log_dir, "best.pth"))

    result = algorithm.run_training(OnPolicyTrainerParams(
        training_collector=train_collector,
        test_collector=test_collector,
        logger=logger,
        save_best_fn=save_best,
        **cfg["trainer"],
    ))
    pprint.pprint(result)


if __name__ == "__main__":
    main()
