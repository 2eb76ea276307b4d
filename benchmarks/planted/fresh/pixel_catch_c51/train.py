import argparse
import os
import pickle

import numpy as np
import torch
from tianshou.algorithm.modelfree.c51 import C51, C51Policy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from torch.utils.tensorboard import SummaryWriter

from game.catch import Catch
from nets import SmallConv

torch.set_num_threads(1)


class FrameBuffer(VectorReplayBuffer):
    def hasnull(self):
        return False  # uint8 frames and our own rewards: nothing to look for


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1626)
    p.add_argument("--eps", type=float, default=0.1)
    p.add_argument("--buffer-size", type=int, default=15000)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--n-step", type=int, default=3)
    p.add_argument("--target-update-freq", type=int, default=300)
    p.add_argument("--epoch", type=int, default=2000)
    p.add_argument("--epoch-num-steps", type=int, default=480)
    p.add_argument("--collection-step-num-env-steps", type=int, default=16)
    p.add_argument("--update-per-step", type=float, default=0.125)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--num-training-envs", type=int, default=8)
    p.add_argument("--num-test-envs", type=int, default=1)
    p.add_argument("--logdir", type=str, default="log")
    p.add_argument("--save-interval", type=int, default=1)
    return p.parse_args()


def main(args):
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    training_envs = DummyVectorEnv([Catch for _ in range(args.num_training_envs)])
    training_envs.seed(args.seed)
    env = Catch()
    net = SmallConv(env.action_space.n, 51)
    policy = C51Policy(
        model=net, action_space=env.action_space, observation_space=env.observation_space,
        num_atoms=51, v_min=-8.0, v_max=8.0, eps_training=args.eps, eps_inference=0.01,
    )
    algorithm = C51(
        policy=policy, optim=AdamOptimizerFactory(lr=args.lr), gamma=args.gamma,
        n_step_return_horizon=args.n_step, target_update_freq=args.target_update_freq,
    )
    buffer = FrameBuffer(args.buffer_size, buffer_num=len(training_envs))
    collector = Collector(algorithm, training_envs, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=args.batch_size * 8)

    log_path = os.path.join(args.logdir, "catch", "c51")
    os.makedirs(log_path, exist_ok=True)
    logger = TensorboardLogger(SummaryWriter(log_path), save_interval=args.save_interval)

    def save_checkpoint_fn(epoch, env_step, gradient_step):
        ckpt_path = os.path.join(log_path, "checkpoint.pth")
        torch.save({"algorithm": algorithm.state_dict()}, ckpt_path)
        with open(os.path.join(log_path, "train_buffer.pkl"), "wb") as f:
            pickle.dump(collector.buffer, f)
        return ckpt_path

    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=args.epoch,
            epoch_num_steps=args.epoch_num_steps,
            collection_step_num_env_steps=args.collection_step_num_env_steps,
            update_step_num_gradient_steps_per_sample=args.update_per_step,
            batch_size=args.batch_size,
            save_checkpoint_fn=save_checkpoint_fn,
            logger=logger,
            show_progress=False,
        )
    )


if __name__ == "__main__":
    main(get_args())
