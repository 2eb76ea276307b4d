from pathlib import Path

import torch
import yaml
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer, SequentialTrainerCfg
from skrl.utils import set_seed

from gripper import GripperVecEnv
from policy import ActorCritic

ROOT = Path(__file__).resolve().parent


def agent_cfg(a, env):
    cfg = PPO_CFG(
        rollouts=a["rollouts"],
        learning_epochs=a["epochs"],
        mini_batches=a["minibatch"],
        discount_factor=a["gamma"],
        gae_lambda=a["lam"],
        learning_rate=a["lr"],
        ratio_clip=a["clip"],
        entropy_loss_scale=a["entropy"],
        grad_norm_clip=a["max_grad_norm"],
        value_loss_scale=1.0,
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": env.device},
    )
    cfg.experiment.directory = str(ROOT / "runs")
    cfg.experiment.experiment_name = "gripper"
    cfg.experiment.write_interval = 1000
    cfg.experiment.checkpoint_interval = 50_000
    return cfg


def main():
    cfg = yaml.safe_load((ROOT / "configs" / "ppo.yaml").read_text())
    set_seed(cfg["seed"])
    torch.set_num_threads(1)
    env = wrap_env(GripperVecEnv(cfg["num_envs"]), wrapper="gymnasium", verbose=False)

    shared = ActorCritic(env.observation_space, env.action_space, env.device, cfg["network"]["units"])
    memory = RandomMemory(memory_size=cfg["agent"]["rollouts"], num_envs=env.num_envs, device=env.device)
    agent = PPO(models={"policy": shared, "value": shared}, memory=memory, cfg=agent_cfg(cfg["agent"], env),
                observation_space=env.observation_space, action_space=env.action_space, device=env.device)

    trainer = SequentialTrainer(cfg=SequentialTrainerCfg(timesteps=cfg["timesteps"], headless=True),
                                env=env, agents=agent)
    trainer.train()


if __name__ == "__main__":
    main()
