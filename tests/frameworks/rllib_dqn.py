"""DQN on CartPole-v1 with RLlib (new API stack).

usage: python rllib_dqn.py [iterations=8]
"""

import json
import os
import random
import sys

import numpy as np
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

SEED = 11


def make_config():
    return (
        DQNConfig()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .environment("CartPole-v1")
        .framework("torch")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=1, rollout_fragment_length=4)
        .learners(num_learners=0, num_gpus_per_learner=0)
        .training(
            train_batch_size_per_learner=32,
            lr=5e-4,
            epsilon=[(0, 1.0), (1500, 0.05)],
            target_network_update_freq=200,
            num_steps_sampled_before_learning_starts=200,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 10_000},
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64]))
        .reporting(min_sample_timesteps_per_iteration=200)
        .debugging(seed=SEED, log_level="ERROR")
    )


def main(iterations):
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    algo = make_config().build_algo()
    # RLlib never seeds the episode buffer's generator
    algo.local_replay_buffer.rng = np.random.default_rng(SEED)
    for i in range(iterations):
        result = algo.train()
        sampled = result["env_runners"]["num_env_steps_sampled_lifetime"]
        ret = result["env_runners"].get("episode_return_mean", float("nan"))
        print(f"iter {i} env steps {int(sampled)} return {ret:.1f}", flush=True)

    module = algo.learner_group._learner.module["default_policy"]
    weights = [float(p.detach().sum()) for p in module.parameters()]
    algo.stop()
    ray.shutdown()
    with open(os.environ.get("RESULT", "result.json"), "w") as fh:
        json.dump({"env_steps": int(sampled), "weights": weights}, fh)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
