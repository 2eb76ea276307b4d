"""PPO on CartPole-v1 with RLlib, learning outside of this process.

usage: python rllib_remote.py [iterations=8] [learner|trial]

learner: two remote env runners and a remote learner. trial: the whole algorithm is a trial of Ray Tune, in an actor.
"""

import json
import os
import sys

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

MINIBATCH = 128

PLACES = {
    "learner": (dict(num_env_runners=2, num_envs_per_env_runner=1), dict(num_learners=1)),
    "trial": (dict(num_env_runners=0, num_envs_per_env_runner=1), dict(num_learners=0)),
}


def make_config(kind):
    runners, learners = PLACES[kind]
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .framework("torch")
        .env_runners(**runners)
        .learners(num_gpus_per_learner=0, **learners)
        .training(train_batch_size_per_learner=512, minibatch_size=MINIBATCH, num_epochs=2, lr=3e-4)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=False))
        .debugging(seed=7, log_level="ERROR")
    )


def train_here(iterations):
    algo = make_config("learner").build_algo()
    for _ in range(iterations):
        result = algo.train()
    algo.stop()
    return result


def train_in_a_trial(iterations):
    run_config = tune.RunConfig(
        stop={"training_iteration": iterations}, verbose=0, storage_path=os.path.join(os.getcwd(), "results")
    )
    return tune.Tuner("PPO", param_space=make_config("trial"), run_config=run_config).fit()[0].metrics


def main(iterations, kind):
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    result = train_here(iterations) if kind == "learner" else train_in_a_trial(iterations)
    ray.shutdown()
    steps = int(result["env_runners"]["num_env_steps_sampled_lifetime"])
    updates = int(result["learners"]["default_policy"]["num_module_steps_trained_lifetime"]) // MINIBATCH
    with open(os.environ.get("RESULT", "result.json"), "w") as fh:
        json.dump({"env_steps": steps, "updates": updates}, fh)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8, sys.argv[2] if len(sys.argv) > 2 else "learner")
