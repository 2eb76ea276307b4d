import os

# one BLAS thread per worker process: there is a worker for every environment
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import time

import numpy as np
import torch
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams

from agent import make_agent
from network import RoutingEnv

parser = argparse.ArgumentParser(description="Learn district-wise diversion in a queueing network")
parser.add_argument("--workers", type=int, default=8)
parser.add_argument("--nodes", type=int, default=600)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--epochs", type=int, default=200)
parser.add_argument("--steps-per-epoch", type=int, default=10_240)
parser.add_argument("--steps-per-collect", type=int, default=512)
parser.add_argument("--repeat", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=128)


class Progress:
    """Prints a line every few training steps."""

    def __init__(self, collector, every=4):
        self.collector, self.every, self.calls, self.start = collector, every, 0, time.time()

    def __call__(self, epoch, env_step):
        self.calls += 1
        if self.calls % self.every == 0:
            spent = time.time() - self.start
            print(f"epoch {epoch} step {env_step} {env_step / spent:.0f} steps/s "
                  f"(collecting {self.collector.collect_time / spent:.0%})", flush=True)


def main(args):
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = SubprocVectorEnv([lambda: RoutingEnv(args.nodes) for _ in range(args.workers)])
    envs.seed(args.seed)

    algorithm = make_agent(envs.observation_space[0], envs.action_space[0], hidden=(64, 64), lr=3e-4,
                           gamma=0.95, clip=0.2, entropy=0.001)
    collector = Collector(algorithm, envs, VectorReplayBuffer(args.steps_per_collect, args.workers))
    algorithm.run_training(OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=args.epochs,
        epoch_num_steps=args.steps_per_epoch,
        collection_step_num_env_steps=args.steps_per_collect,
        update_step_num_repetitions=args.repeat,
        batch_size=args.batch_size,
        training_fn=Progress(collector),
        show_progress=False,
        verbose=False,
    ))
    torch.save(algorithm.state_dict(), "router.pth")
    envs.close()


if __name__ == "__main__":
    main(parser.parse_args())
