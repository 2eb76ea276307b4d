from dataclasses import dataclass

import torch
from skrl.agents.torch.ppo import PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

from agent import GatePPO
from networks import Critic, Pilot
from sim.drones import DroneSwarm


@dataclass
class Settings:
    seed: int = 9
    drones: int = 128
    rollouts: int = 32
    epochs: int = 5
    mini_batches: int = 8
    timesteps: int = 1_000_000


def main(s: Settings):
    torch.set_num_threads(1)
    set_seed(s.seed)
    raw = DroneSwarm(s.drones)
    env = wrap_env(raw)
    cfg = PPO_CFG(
        rollouts=s.rollouts, learning_epochs=s.epochs, mini_batches=s.mini_batches,
        discount_factor=0.99, gae_lambda=0.95, learning_rate=5e-4, entropy_loss_scale=0.001, value_loss_scale=1.0,
        grad_norm_clip=1.0, value_clip=0.2,
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": env.observation_space, "device": env.device},
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": env.device},
    )
    cfg.experiment.directory = "runs"
    cfg.experiment.experiment_name = "gates"
    cfg.experiment.write_interval = 1000
    cfg.experiment.checkpoint_interval = 20_000
    spaces = (env.observation_space, env.action_space, env.device)
    agent = GatePPO(
        models={"policy": Pilot(*spaces), "value": Critic(*spaces)},
        memory=RandomMemory(memory_size=s.rollouts, num_envs=env.num_envs, device=env.device),
        cfg=cfg, observation_space=env.observation_space, action_space=env.action_space, device=env.device,
    ).attach(raw)
    SequentialTrainer(cfg={"timesteps": s.timesteps, "headless": True}, env=env, agents=agent).train()


if __name__ == "__main__":
    main(Settings())
