"""PPO on CartPole-v1 with skrl 2.x and the SequentialTrainer.

usage: skrl_ppo.py [timesteps] [single|serial|subproc]
A skrl timestep is one call of the (vectorised) env's step.
"""

import json
import os
import sys

import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

SEED = 3
TASK = "CartPole-v1"


class Policy(CategoricalMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        CategoricalMixin.__init__(self, unnormalized_log_prob=True)
        self.body = nn.Sequential(
            nn.Linear(self.num_observations, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, self.num_actions)
        )

    def compute(self, inputs, role=""):
        return self.body(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.body = nn.Sequential(
            nn.Linear(self.num_observations, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )

    def compute(self, inputs, role=""):
        return self.body(inputs["observations"]), {}


def make_env(kind):
    if kind == "single":
        return gym.make(TASK)
    if kind == "serial":
        return gym.vector.SyncVectorEnv([lambda: gym.make(TASK) for _ in range(4)])
    if kind == "subproc":
        return gym.vector.AsyncVectorEnv([lambda: gym.make(TASK) for _ in range(2)])
    raise SystemExit(f"unknown env kind {kind!r}")


def main():
    timesteps = int(sys.argv[1]) if len(sys.argv) > 1 else 12000
    kind = sys.argv[2] if len(sys.argv) > 2 else "serial"

    torch.set_num_threads(1)
    set_seed(SEED)

    env = wrap_env(make_env(kind))
    models = {"policy": Policy(env), "value": Value(env)}
    rollouts = 128
    memory = RandomMemory(memory_size=rollouts, num_envs=env.num_envs, device=env.device)

    cfg = PPO_CFG(
        rollouts=rollouts,
        learning_epochs=4,
        mini_batches=4,
        learning_rate=3e-4,
        entropy_loss_scale=0.01,
        value_loss_scale=0.5,
        experiment={
            "directory": os.path.join(os.getcwd(), "runs"),
            "experiment_name": f"skrl_ppo_{kind}",
            "write_interval": 200,
            "checkpoint_interval": 2000,
        },
    )
    agent = PPO(
        models=models,
        memory=memory,
        cfg=cfg,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
    )
    trainer = SequentialTrainer(
        env=env,
        agents=agent,
        cfg={"timesteps": timesteps, "headless": True, "disable_progressbar": True},
    )
    trainer.train()

    # skrl counts calls of env.step (timesteps); each covers num_envs environments
    env_steps = agent._rollout * env.num_envs
    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump(
            {
                "env_steps": int(env_steps),
                "weights": [float(p.detach().sum()) for m in models.values() for p in m.parameters()],
            },
            f,
        )
    print(f"skrl ppo {kind}: {agent._rollout} timesteps x {env.num_envs} envs")


if __name__ == "__main__":
    main()
