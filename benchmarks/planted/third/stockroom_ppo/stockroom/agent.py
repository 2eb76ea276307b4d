import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic


def categorical(logits: torch.Tensor) -> torch.distributions.Categorical:
    return torch.distributions.Categorical(logits=logits, validate_args=False)


def build_ppo(env, cfg) -> PPO:
    obs_shape, n = env.observation_space.shape, env.action_space.n
    actor = DiscreteActor(preprocess_net=Net(state_shape=obs_shape, hidden_sizes=cfg["hidden"]),
                          action_shape=n, softmax_output=False)
    critic = DiscreteCritic(preprocess_net=Net(state_shape=obs_shape, hidden_sizes=cfg["hidden"]))
    for module in (*actor.modules(), *critic.modules()):
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.orthogonal_(module.weight, 2 ** 0.5)
            torch.nn.init.zeros_(module.bias)
    with torch.no_grad():
        for p in actor.last.parameters():
            p.mul_(0.01)
    policy = DiscreteActorPolicy(actor=actor, dist_fn=categorical, action_space=env.action_space,
                                 deterministic_eval=True)
    return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=cfg["lr"]),
               eps_clip=0.2, vf_coef=0.5, ent_coef=cfg["entropy"], max_grad_norm=0.5,
               gae_lambda=0.95, gamma=cfg["gamma"], max_batchsize=2048)
