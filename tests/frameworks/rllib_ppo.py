"""PPO on CartPole-v1 with RLlib (new API stack).

usage: python rllib_ppo.py [iterations=24] [single|serial|subproc]
"""

import json
import os
import random
import sys

import numpy as np
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

SEED = 7

RUNNERS = {
    "single": dict(num_env_runners=0, num_envs_per_env_runner=1),
    "serial": dict(num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode="sync"),
    "subproc": dict(num_env_runners=2, num_envs_per_env_runner=1),
}


def make_config(kind):
    return (
        PPOConfig()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .environment("CartPole-v1")
        .framework("torch")
        .env_runners(**RUNNERS[kind])
        .learners(num_learners=0, num_gpus_per_learner=0)
        .training(
            train_batch_size_per_learner=512,
            minibatch_size=128,
            num_epochs=2,
            lr=3e-4,
            gamma=0.99,
            lambda_=0.95,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
        .debugging(seed=SEED, log_level="ERROR")
    )


def main(iterations, kind):
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    algo = make_config(kind).build_algo()
    for i in range(iterations):
        result = algo.train()
        sampled = result["env_runners"]["num_env_steps_sampled_lifetime"]
        if i % 4 == 0:
            ret = result["env_runners"].get("episode_return_mean", float("nan"))
            print(f"iter {i} env steps {int(sampled)} return {ret:.1f}", flush=True)

    # the learner's module (the env runner only holds an inference copy)
    module = algo.learner_group._learner.module["default_policy"]
    weights = [float(p.detach().sum()) for p in module.parameters()]
    algo.stop()
    ray.shutdown()
    with open(os.environ.get("RESULT", "result.json"), "w") as fh:
        json.dump({"env_steps": int(sampled), "weights": weights}, fh)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 24,
        sys.argv[2] if len(sys.argv) > 2 else "single",
    )
