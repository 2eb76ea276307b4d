"""DQN on a single CartPole-v1 with skrl 2.x.

usage: skrl_dqn.py [timesteps]
"""

import json
import os
import sys

import gymnasium as gym
import torch
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

SEED = 5


class QNetwork(DeterministicMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        DeterministicMixin.__init__(self)
        self.body = nn.Sequential(
            nn.Linear(self.num_observations, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, self.num_actions)
        )

    def compute(self, inputs, role=""):
        return self.body(inputs["observations"]), {}


def epsilon(timestep, timesteps):
    return max(0.05, 1.0 - 2.0 * timestep / timesteps)


def main():
    timesteps = int(sys.argv[1]) if len(sys.argv) > 1 else 12000
    learning_starts = 200

    torch.set_num_threads(1)
    set_seed(SEED)

    env = wrap_env(gym.make("CartPole-v1"))
    models = {"q_network": QNetwork(env), "target_q_network": QNetwork(env)}
    memory = RandomMemory(memory_size=20_000, num_envs=env.num_envs, device=env.device, replacement=True)

    cfg = DQN_CFG(
        batch_size=64,
        learning_rate=1e-3,
        learning_starts=learning_starts,
        random_timesteps=learning_starts,
        update_interval=2,
        target_update_interval=10,
        polyak=0.05,
        exploration_scheduler=epsilon,
        experiment={
            "directory": os.path.join(os.getcwd(), "runs"),
            "experiment_name": "skrl_dqn",
            "write_interval": 200,
            "checkpoint_interval": 2000,
        },
    )
    agent = DQN(
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

    # skrl has no env step counter of its own for DQN besides the trainer's timesteps
    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump(
            {
                "env_steps": int(trainer.cfg.timesteps * env.num_envs),
                "weights": [float(p.detach().sum()) for m in models.values() for p in m.parameters()],
                "updates": int(agent._update_counter),
            },
            f,
        )
    print(f"skrl dqn: {timesteps} timesteps, {agent._update_counter} updates")


if __name__ == "__main__":
    main()
