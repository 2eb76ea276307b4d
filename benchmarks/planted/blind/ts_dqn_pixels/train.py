"""DQN (double, n-step) from pixels, tianshou 2"""
import argparse
import os
import sys
import time

import numpy as np
import torch
from torch import nn

BASE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, BASE)
from game import Catch

from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import ModuleWithVectorOutput
from tianshou.utils.torch_utils import policy_within_training_step


class QNet(ModuleWithVectorOutput):
    def __init__(self, n_act):
        super().__init__(n_act)
        self.c = nn.Sequential(
            nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten()
        )
        self.h = nn.Sequential(nn.Linear(64 * 4 * 4, 512), nn.ReLU(), nn.Linear(512, n_act))

    def forward(self, obs, state=None, info=None):
        x = torch.as_tensor(np.asarray(obs)).float().div_(255.0)
        return self.h(self.c(x)), state


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=9)
    p.add_argument("--n-envs", type=int, default=16)
    p.add_argument("--buffer", type=int, default=24000)
    p.add_argument("--lr", type=float, default=1e-4)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--utd", type=float, default=0.125)
    p.add_argument("--collect", type=int, default=64)
    p.add_argument("--epoch-steps", type=int, default=20000)
    p.add_argument("--eps-end", type=float, default=0.03)
    p.add_argument("--eps-steps", type=int, default=200000)
    return p.parse_args()


def main():
    a = get_args()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    np.random.seed(a.seed)
    envs = DummyVectorEnv([Catch for _ in range(a.n_envs)])
    tests = DummyVectorEnv([Catch for _ in range(4)])
    envs.seed(a.seed)
    tests.seed(a.seed + 1)
    e = Catch()
    policy = DiscreteQLearningPolicy(
        model=QNet(3), action_space=e.action_space, observation_space=e.observation_space, eps_training=1.0, eps_inference=0.01
    )
    algo = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=a.lr),
        gamma=0.98,
        n_step_return_horizon=3,
        target_update_freq=500,
        is_double=True,
        huber_loss_delta=1.0,
    )
    buf = VectorReplayBuffer(a.buffer, buffer_num=a.n_envs, ignore_obs_next=True)
    tr = Collector[CollectStats](algo, envs, buf, exploration_noise=True)
    te = Collector[CollectStats](algo, tests, exploration_noise=True)
    tr.reset()
    with policy_within_training_step(policy):
        tr.collect(n_step=1600, random=True)

    out = os.path.join(BASE, "out")
    os.makedirs(out, exist_ok=True)
    mark = [time.time(), 0]

    def on_train(epoch, env_step):
        f = min(1.0, env_step / a.eps_steps)
        policy.set_eps_training(1.0 + f * (a.eps_end - 1.0))
        if time.time() - mark[0] > 2:
            print(f"epoch {epoch} env_step {env_step} fps {(env_step - mark[1]) / (time.time() - mark[0]):.0f} eps {policy.eps_training:.2f}", flush=True)
            mark[:] = [time.time(), env_step]

    algo.run_training(
        OffPolicyTrainerParams(
            training_collector=tr,
            test_collector=te,
            max_epochs=1000,
            epoch_num_steps=a.epoch_steps,
            collection_step_num_env_steps=a.collect,
            update_step_num_gradient_steps_per_sample=a.utd,
            batch_size=a.batch,
            test_step_num_episodes=4,
            training_fn=on_train,
            save_best_fn=lambda al: torch.save(al.state_dict(), os.path.join(out, "best.pth")),
            show_progress=False,
            verbose=False,
        )
    )


if __name__ == "__main__":
    main()
