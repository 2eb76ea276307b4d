import torch
from tensordict.nn import TensorDictModule
from tensordict.nn.distributions import NormalParamExtractor
from torch import nn
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator


def mlp(inputs, width, outputs, gain):
    net = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                        nn.Linear(width, outputs))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, 1.0)
            nn.init.zeros_(layer.bias)
    with torch.no_grad():
        net[-1].weight.mul_(gain)
    return net


def make_models(obs_dim, action_spec, width):
    action_dim = action_spec.shape[-1]
    body = nn.Sequential(mlp(obs_dim, width, 2 * action_dim, 0.01), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=action_spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": action_spec.space.low, "high": action_spec.space.high},
        return_log_prob=True,
    )
    critic = ValueOperator(mlp(obs_dim, width, 1, 1.0), in_keys=["observation"])
    return actor, critic
