"""RLlib's PPO on CartPole in one process, from 2.9 on (its old API before 2.40): `python rllib_ppo.py STEPS`.

RLlib draws from generators of its own, so its weights are not compared.
"""

import json
import sys

import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig


def main():
    torch.set_num_threads(1)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    old = tuple(map(int, ray.__version__.split(".")[:2])) < (2, 40)
    config = PPOConfig().environment("CartPole-v1").framework("torch").debugging(seed=0)
    if old:
        config = config.rollouts(num_rollout_workers=0)
        config = config.training(train_batch_size=1024, sgd_minibatch_size=128, num_sgd_iter=4)
    else:
        config = config.env_runners(num_env_runners=0)
        config = config.training(train_batch_size_per_learner=1024, minibatch_size=128, num_epochs=4)
    algorithm = config.build() if old else config.build_algo()
    steps = 0
    while steps < int(sys.argv[1]):
        result = algorithm.train()
        steps = int(result["num_env_steps_sampled"] if old else result["env_runners"]["num_env_steps_sampled_lifetime"])
    ahead = 1 if old else 0  # its sampler makes the next step before it hands a batch over, and does not count it yet
    print(json.dumps({"env_steps": steps + ahead, "weights": ""}))
    algorithm.stop()


if __name__ == "__main__":
    main()
