"""A2C on the reaching task. Usage: python train.py [--lr 1e-3 --test-episodes 10 ...]"""
import argparse
import dataclasses
import datetime
import pathlib

import numpy as np
import torch
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from torch.utils.tensorboard import SummaryWriter

from arm import ReachEnv
from build import Config, build_a2c

HERE = pathlib.Path(__file__).resolve().parent


def parse_config() -> Config:
    parser = argparse.ArgumentParser()
    for field in dataclasses.fields(Config):
        if field.type in (int, float):
            parser.add_argument("--" + field.name.replace("_", "-"), type=field.type, default=field.default)
    return Config(**vars(parser.parse_args()))


def make_collectors(algorithm, cfg):
    train = DummyVectorEnv([lambda: ReachEnv(cfg.limit) for _ in range(cfg.training_envs)])
    test = DummyVectorEnv([lambda: ReachEnv(cfg.limit) for _ in range(cfg.test_envs)])
    train.seed(cfg.seed)
    test.seed(cfg.seed + 500)
    buffer = VectorReplayBuffer(cfg.steps_per_collect, cfg.training_envs)
    return Collector(algorithm, train, buffer), Collector(algorithm, test)


def main():
    cfg = parse_config()
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    algorithm = build_a2c(ReachEnv(cfg.limit), cfg)
    train_collector, test_collector = make_collectors(algorithm, cfg)

    run_dir = HERE / "runs" / datetime.datetime.now().strftime("%m%d-%H%M%S")
    writer = SummaryWriter(str(run_dir))
    writer.add_text("config", str(cfg))
    logger = TensorboardLogger(writer, training_interval=1000, update_interval=10)

    algorithm.run_training(OnPolicyTrainerParams(
        training_collector=train_collector,
        test_collector=test_collector,
        max_epochs=cfg.max_epochs,
        epoch_num_steps=cfg.steps_per_epoch,
        collection_step_num_env_steps=cfg.steps_per_collect,
        test_step_num_episodes=cfg.test_episodes,
        update_step_num_repetitions=1,
        batch_size=None,
        save_best_fn=lambda algo: torch.save(algo.policy.state_dict(), run_dir / "policy.pth"),
        logger=logger,
        show_progress=False,
    ))


if __name__ == "__main__":
    main()
