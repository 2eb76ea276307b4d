from pathlib import Path

import numpy as np
import torch
import yaml
from tianshou.algorithm.modelfree.a2c import A2C
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from crane import Crane


def build(cfg):
    n = cfg["envs"]["training"]
    training_envs = SubprocVectorEnv([Crane for _ in range(n)])
    test_envs = DummyVectorEnv([Crane for _ in range(cfg["envs"]["test"])])
    training_envs.seed(cfg["seed"])
    test_envs.seed(cfg["seed"] + 1000)

    probe = Crane()
    shape, n_act = probe.observation_space.shape, probe.action_space.n
    body = lambda: Net(state_shape=shape, hidden_sizes=cfg["net"]["hidden"], activation=torch.nn.Tanh)
    actor = DiscreteActor(preprocess_net=body(), action_shape=n_act, softmax_output=False)
    critic = DiscreteCritic(preprocess_net=body())
    policy = DiscreteActorPolicy(actor=actor, action_space=probe.action_space, observation_space=probe.observation_space)
    a = cfg["algo"]
    algorithm = A2C(
        policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=a["lr"]), gamma=a["gamma"],
        gae_lambda=a["gae_lambda"], ent_coef=a["ent_coef"], vf_coef=a["vf_coef"],
        max_grad_norm=a["max_grad_norm"], max_batchsize=1024,
    )
    buffer = VectorReplayBuffer(cfg["trainer"]["collect_steps"] * 2, n)
    return algorithm, Collector(algorithm, training_envs, buffer), Collector(algorithm, test_envs)


def main():
    torch.set_num_threads(1)
    with open(Path(__file__).with_name("config.yaml")) as f:
        cfg = yaml.safe_load(f)
    np.random.seed(cfg["seed"])
    torch.manual_seed(cfg["seed"])
    algorithm, training_collector, test_collector = build(cfg)
    training_collector.reset()
    test_collector.reset()
    t = cfg["trainer"]
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=training_collector,
            test_collector=test_collector,
            max_epochs=t["max_epochs"],
            epoch_num_steps=t["epoch_num_steps"],
            collection_step_num_env_steps=t["collect_steps"],
            update_step_num_repetitions=t["repeat"],
            batch_size=t["batch_size"],
            test_step_num_episodes=t["test_episodes"],
        )
    )


if __name__ == "__main__":
    main()
