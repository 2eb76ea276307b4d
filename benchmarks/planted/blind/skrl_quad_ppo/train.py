import logging
import os
import sys
import time

import torch
import torch.nn as nn
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from quad_env import QuadHover
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.resources.schedulers.torch import KLAdaptiveLR
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

with open(os.path.join(HERE, "config.yaml")) as fh:
    C = yaml.safe_load(fh)


class Pi(GaussianMixin, Model):
    def __init__(self, observation_space, action_space, device, h):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        GaussianMixin.__init__(self, clip_actions=False, clip_log_std=True, min_log_std=-5, max_log_std=1)
        self.net = nn.Sequential(
            nn.Linear(self.num_observations, h), nn.ELU(), nn.Linear(h, h), nn.ELU(), nn.Linear(h, self.num_actions), nn.Tanh()
        )
        self.log_std = nn.Parameter(torch.full((self.num_actions,), -0.5))

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class V(DeterministicMixin, Model):
    def __init__(self, observation_space, action_space, device, h):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(nn.Linear(self.num_observations, h), nn.ELU(), nn.Linear(h, h), nn.ELU(), nn.Linear(h, 1))

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class TimedPPO(PPO):
    """only prints the speed now and then"""

    _t, _s, _t0 = None, 0, time.time()

    def post_interaction(self, *, timestep, timesteps):
        super().post_interaction(timestep=timestep, timesteps=timesteps)
        now = time.time()
        if self._t is None:
            self._t, self._s = now, timestep
        elif now - self._t > 2.0:
            sps = (timestep - self._s) * C["env"]["num_envs"] / (now - self._t)
            rew = self.tracking_data.get("Reward / Total reward (mean)", [float("nan")])
            print(f"{now - self._t0:7.1f}s  t={timestep}  sps={sps:.0f}  rew={rew[-1]:.2f}", flush=True)
            self._t, self._s = now, timestep


def main():
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    set_seed(C["seed"])
    env = wrap_env(QuadHover(**C["env"], seed=C["seed"]))
    dev = env.device
    models = {
        "policy": Pi(env.observation_space, env.action_space, dev, C["net"]["hidden"]),
        "value": V(env.observation_space, env.action_space, dev, C["net"]["hidden"]),
    }
    a = C["agent"]
    memory = RandomMemory(memory_size=a["rollouts"], num_envs=env.num_envs, device=dev)
    cfg = PPO_CFG(
        rollouts=a["rollouts"],
        learning_epochs=a["epochs"],
        mini_batches=a["mini_batches"],
        discount_factor=a["gamma"],
        gae_lambda=a["lam"],
        learning_rate=a["lr"],
        learning_rate_scheduler=KLAdaptiveLR,
        learning_rate_scheduler_kwargs={"kl_threshold": 0.01},
        grad_norm_clip=1.0,
        ratio_clip=0.2,
        value_clip=0.2,
        entropy_loss_scale=a["ent"],
        value_loss_scale=1.0,
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": env.observation_space, "device": dev},
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": dev},
        experiment={
            "directory": os.path.join(HERE, "runs"),
            "experiment_name": "quad",
            "write_interval": 2000,
            "checkpoint_interval": 20000,
        },
    )
    agent = TimedPPO(
        models=models,
        memory=memory,
        cfg=cfg,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=dev,
    )
    trainer = SequentialTrainer(
        env=env, agents=agent, cfg={"timesteps": C["timesteps"], "headless": True, "disable_progressbar": True}
    )
    trainer.train()


if __name__ == "__main__":
    main()
