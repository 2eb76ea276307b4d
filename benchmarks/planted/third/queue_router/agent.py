import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from torch.distributions import Independent, Normal


def diagonal(loc_scale):
    return Independent(Normal(*loc_scale, validate_args=False), 1, validate_args=False)


def make_agent(observation_space, action_space, *, hidden, lr, gamma, clip, entropy):
    def trunk():
        return Net(state_shape=observation_space.shape, hidden_sizes=hidden, activation=torch.nn.Tanh)

    actor = ContinuousActorProbabilistic(preprocess_net=trunk(), action_shape=action_space.shape, unbounded=True)
    critic = ContinuousCritic(preprocess_net=trunk())
    torch.nn.init.constant_(actor.sigma_param, -0.7)
    policy = ProbabilisticActorPolicy(actor=actor, dist_fn=diagonal, action_space=action_space,
                                      action_scaling=True, action_bound_method="clip")
    return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=lr), eps_clip=clip, ent_coef=entropy,
               gamma=gamma, gae_lambda=0.95, max_grad_norm=0.5, max_batchsize=1024, advantage_normalization=True)
