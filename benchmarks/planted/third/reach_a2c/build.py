from dataclasses import dataclass

import torch
from tianshou.algorithm import A2C
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import RMSpropOptimizerFactory
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Independent, Normal


@dataclass
class Config:
    seed: int = 21
    limit: int = 200                     # steps per episode
    training_envs: int = 8
    test_envs: int = 4
    max_epochs: int = 2000
    steps_per_epoch: int = 1024
    steps_per_collect: int = 256
    test_episodes: int = 12
    hidden: tuple = (128, 128)
    lr: float = 7e-4
    gamma: float = 0.98
    gae_lambda: float = 0.95
    ent_coef: float = 0.003
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


def gaussian(loc_scale):
    loc, scale = loc_scale
    return Independent(Normal(loc, scale, validate_args=False), 1, validate_args=False)


def build_a2c(env, cfg: Config) -> A2C:
    shape = env.observation_space.shape
    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=shape, hidden_sizes=cfg.hidden, activation=torch.nn.Tanh),
        action_shape=env.action_space.shape, unbounded=True)
    critic = ContinuousCritic(
        preprocess_net=Net(state_shape=shape, hidden_sizes=cfg.hidden, activation=torch.nn.Tanh))
    torch.nn.init.constant_(actor.sigma_param, -0.5)
    policy = ProbabilisticActorPolicy(actor=actor, dist_fn=gaussian, action_space=env.action_space,
                                      action_scaling=True, action_bound_method="clip",
                                      deterministic_eval=True)
    return A2C(policy=policy, critic=critic, optim=RMSpropOptimizerFactory(lr=cfg.lr, eps=1e-5, alpha=0.99),
               vf_coef=cfg.vf_coef, ent_coef=cfg.ent_coef, max_grad_norm=cfg.max_grad_norm,
               gae_lambda=cfg.gae_lambda, gamma=cfg.gamma, max_batchsize=1024)
