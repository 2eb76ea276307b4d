"""Double DQN on CartPole-v1 with Tianshou 2.x, four serial training envs, two test envs.

usage: tianshou_dqn.py [total_env_steps]
"""

import json
import os
import random
import sys

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import Net
from torch.utils.tensorboard import SummaryWriter

SEED = 11
TASK = "CartPole-v1"
PREFILL = 256


def main():
    total_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8000

    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    train_envs = DummyVectorEnv([lambda: gym.make(TASK) for _ in range(4)])
    test_envs = DummyVectorEnv([lambda: gym.make(TASK) for _ in range(2)])
    train_envs.seed(SEED)
    test_envs.seed(SEED + 1000)
    obs_space, act_space = train_envs.observation_space[0], train_envs.action_space[0]

    q_net = Net(state_shape=obs_space.shape, action_shape=act_space.n, hidden_sizes=(64, 64))
    policy = DiscreteQLearningPolicy(
        model=q_net, action_space=act_space, observation_space=obs_space, eps_training=0.3, eps_inference=0.0
    )
    algorithm = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=0.99,
        n_step_return_horizon=3,
        target_update_freq=200,
    )

    train_collector = Collector(algorithm, train_envs, VectorReplayBuffer(10_000, len(train_envs)), exploration_noise=True)
    test_collector = Collector(algorithm, test_envs)

    # random transitions so that the first gradient steps have something to sample
    train_collector.collect(n_step=PREFILL, random=True, reset_before_collect=True)
    prefill = train_collector.collect_step

    out_dir = os.path.join(os.getcwd(), "runs", "tianshou_dqn")
    writer = SummaryWriter(out_dir)

    def decay_epsilon(epoch, env_step):
        policy.set_eps_training(max(0.05, 0.3 * (1.0 - env_step / total_steps)))

    def save_best(algo):
        torch.save(algo.policy.state_dict(), os.path.join(out_dir, "best.pth"))

    epochs = 16
    info = algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=train_collector,
            test_collector=test_collector,
            max_epochs=epochs,
            epoch_num_steps=max(1, total_steps // epochs),
            collection_step_num_env_steps=8,
            update_step_num_gradient_steps_per_sample=0.25,
            batch_size=64,
            test_step_num_episodes=2,
            training_fn=decay_epsilon,
            save_best_fn=save_best,
            logger=TensorboardLogger(writer),
            show_progress=False,
        )
    )
    writer.close()
    train_collector.close()
    test_collector.close()

    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump(
            {
                "env_steps": int(info.train_step),
                "weights": [float(p.detach().sum()) for p in policy.parameters()],
                "prefill_steps": int(prefill),
                "eval_steps": int(info.test_step),
                "eval_episodes": int(info.test_episode),
            },
            f,
        )
    print(f"tianshou dqn: {info.train_step} env steps (+{prefill} prefill, {info.test_step} in tests)")


if __name__ == "__main__":
    main()
