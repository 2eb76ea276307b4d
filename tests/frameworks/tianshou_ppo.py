"""PPO on CartPole-v1 with Tianshou 2.x.

usage: tianshou_ppo.py [total_env_steps] [single|serial|subproc]
"""

import json
import os
import random
import sys

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch.utils.tensorboard import SummaryWriter

SEED = 7
TASK = "CartPole-v1"
ROLLOUT = 512


def make_env():
    return gym.make(TASK)


def build_training_env(kind):
    if kind == "single":
        env = make_env()
        env.reset(seed=SEED)
        env.action_space.seed(SEED)
        return env, 1
    if kind == "serial":
        envs = DummyVectorEnv([make_env for _ in range(4)])
    elif kind == "subproc":
        envs = SubprocVectorEnv([make_env for _ in range(2)])
    else:
        raise SystemExit(f"unknown env kind {kind!r}")
    envs.seed(SEED)
    return envs, len(envs)


def main():
    total_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20480
    kind = sys.argv[2] if len(sys.argv) > 2 else "serial"

    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    probe = make_env()
    obs_shape, act_space = probe.observation_space.shape, probe.action_space
    probe.close()

    trunk = Net(state_shape=obs_shape, hidden_sizes=(64, 64), activation=torch.nn.Tanh)
    actor = DiscreteActor(preprocess_net=trunk, action_shape=act_space.n, softmax_output=False)
    critic = DiscreteCritic(preprocess_net=trunk)
    for layer in ActorCritic(actor, critic).modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.orthogonal_(layer.weight, gain=2**0.5)
            torch.nn.init.zeros_(layer.bias)

    algorithm = PPO(
        policy=DiscreteActorPolicy(actor=actor, action_space=act_space),
        critic=critic,
        optim=AdamOptimizerFactory(lr=3e-4),
        gamma=0.99,
        gae_lambda=0.95,
        eps_clip=0.2,
        vf_coef=0.5,
        ent_coef=0.01,
        max_grad_norm=0.5,
    )

    train_env, n_envs = build_training_env(kind)
    collector = Collector(algorithm, train_env, VectorReplayBuffer(ROLLOUT * 4, n_envs))
    writer = SummaryWriter(os.path.join(os.getcwd(), "runs", f"tianshou_ppo_{kind}"))

    info = algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=total_steps,
            collection_step_num_env_steps=ROLLOUT,
            update_step_num_repetitions=4,
            batch_size=64,
            test_collector=None,
            logger=TensorboardLogger(writer),
            show_progress=False,
        )
    )
    writer.close()
    collector.close()

    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump(
            {
                "env_steps": int(info.train_step),
                "weights": [float(p.detach().sum()) for p in algorithm.parameters()],
            },
            f,
        )
    print(f"tianshou ppo {kind}: {info.train_step} env steps, {info.train_episode} episodes")


if __name__ == "__main__":
    main()
