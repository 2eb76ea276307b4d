from functools import partial

import torch
from torchrl.envs import (
    CatFrames,
    ClipTransform,
    Compose,
    DoubleToFloat,
    FiniteTensorDictCheck,
    InitTracker,
    ObservationNorm,
    RewardScaling,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.libs.gym import GymWrapper

from .hover import HoverEnv

# mean and spread of the observations of a PD controller, measured once
OBS_LOC = [0.0, 0.0, 0.0, 0.0, 0.0, 0.93, 0.0, 0.0, 0.9]
OBS_SCALE = [0.8, 0.8, 1.1, 1.1, 0.4, 0.15, 1.6, 0.5, 0.6]


def make_transforms(cfg):
    return Compose(
        DoubleToFloat(in_keys=["observation"]),
        ObservationNorm(loc=torch.tensor(OBS_LOC), scale=torch.tensor(OBS_SCALE),
                        in_keys=["observation"], standard_normal=True),
        ClipTransform(in_keys=["observation"], low=-cfg["clip_obs"], high=cfg["clip_obs"]),
        CatFrames(N=cfg["frames"], dim=-1, in_keys=["observation"]),
        RewardScaling(loc=0.0, scale=cfg["reward_scale"]),
        ClipTransform(in_keys=["reward"], low=-cfg["clip_reward"], high=cfg["clip_reward"]),
        StepCounter(max_steps=cfg["max_steps"]),
        RewardSum(),
        InitTracker(),
        FiniteTensorDictCheck(),
    )


def make_base(cfg):
    return GymWrapper(HoverEnv(cfg["max_thrust"], cfg["wind"]), device="cpu")


def make_env(cfg):
    return TransformedEnv(make_base(cfg), make_transforms(cfg))


def make_train_env(cfg):
    """The environments that the collector steps."""
    return SerialEnv(cfg["num_envs"], partial(make_env, cfg))
