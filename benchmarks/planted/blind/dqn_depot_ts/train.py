import json
import os
import pickle
import sys
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from depot import DepotEnv  # noqa: E402

from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils import LazyLogger
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

cfg = dict(
    seed=3,
    n_train=10,
    buffer=50_000,
    lr=3e-4,
    gamma=0.97,
    n_step=3,
    target_every=400,
    batch=64,
    hidden=[128, 128],
    warmup=2000,
    epoch_steps=800,
    collect=50,
    upd_per_sample=0.06,
    eps=(0.6, 0.05, 150_000),
    double=True,
)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")
CKPT = os.path.join(ROOT, "ckpt")


class ConsoleLogger(LazyLogger):
    """no tensorboard on the cluster -> one json line per epoch"""

    def __init__(self):
        super().__init__()
        self.meta = {}

    def save_data(self, epoch, env_step, update_step, save_checkpoint_fn=None):
        if save_checkpoint_fn is None:
            return
        save_checkpoint_fn(epoch, env_step, update_step)
        self.meta = {"epoch": epoch, "env_step": env_step, "grad": update_step}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    os.makedirs(CKPT, exist_ok=True)
    with open(os.path.join(ROOT, "cfg.json"), "w") as f:
        json.dump(cfg, f, indent=1)

    train_envs = DummyVectorEnv([DepotEnv for _ in range(cfg["n_train"])])
    train_envs.seed(cfg["seed"])
    e = DepotEnv()

    net = Net(
        state_shape=e.observation_space.shape,
        action_shape=e.action_space.n,
        hidden_sizes=cfg["hidden"],
        # dueling_param=({"hidden_sizes": [128]}, {"hidden_sizes": [128]}),
    )
    policy = DiscreteQLearningPolicy(
        model=net,
        action_space=e.action_space,
        observation_space=e.observation_space,
        eps_training=cfg["eps"][0],
        eps_inference=0.01,
    )
    algo = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=cfg["lr"]),
        gamma=cfg["gamma"],
        n_step_return_horizon=cfg["n_step"],
        target_update_freq=cfg["target_every"],
        is_double=cfg["double"],
        huber_loss_delta=1.0,
    )
    buf = VectorReplayBuffer(cfg["buffer"], buffer_num=cfg["n_train"])
    train_c = Collector[CollectStats](algo, train_envs, buf, exploration_noise=True)
    train_c.reset()
    with policy_within_training_step(policy):
        train_c.collect(n_step=cfg["warmup"], random=True)
    print("warmup done,", len(buf), "transitions")

    t0 = time.time()
    last = [t0, 0]

    def train_fn(epoch, env_step):
        hi, lo, n = cfg["eps"]
        policy.set_eps_training(max(lo, hi + (lo - hi) * env_step / n))
        if time.time() - last[0] > 2:
            dt = time.time() - last[0]
            print(f"ep {epoch:4d} step {env_step:8d} fps {(env_step - last[1]) / dt:7.0f} buf {len(buf)}", flush=True)
            last[0], last[1] = time.time(), env_step

    def checkpoint(epoch, env_step, grad_step):
        # the node gets preempted at times, so keep what is needed to go on
        path = os.path.join(CKPT, "state.pth")
        torch.save({"algo": algo.state_dict(), "epoch": epoch, "env_step": env_step}, path)
        with open(os.path.join(CKPT, "train_buffer.pkl"), "wb") as fh:
            pickle.dump(train_c.buffer, fh)
        return path

    # evaluation is a separate job (eval_depot.py reads state.pth)
    res = algo.run_training(
        OffPolicyTrainerParams(
            training_collector=train_c,
            max_epochs=5000,
            epoch_num_steps=cfg["epoch_steps"],
            collection_step_num_env_steps=cfg["collect"],
            update_step_num_gradient_steps_per_sample=cfg["upd_per_sample"],
            batch_size=cfg["batch"],
            training_fn=train_fn,
            save_checkpoint_fn=checkpoint,
            logger=ConsoleLogger(),
            show_progress=False,
            verbose=False,
        )
    )
    print(res)


if __name__ == "__main__":
    main()
