import torch
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from torch import nn

WIDTH = 256


class Actor(GaussianMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space,
                       device=env.device)
        GaussianMixin.__init__(self, clip_actions=True, min_log_std=-5, max_log_std=1)
        self.trunk = nn.Sequential(nn.Linear(self.num_observations, WIDTH), nn.ReLU(),
                                   nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, 2 * self.num_actions)

    def compute(self, inputs, role=""):
        mean, log_std = self.head(self.trunk(inputs["observations"])).chunk(2, dim=-1)
        return torch.tanh(mean), {"log_std": log_std}


class QFunction(DeterministicMixin, Model):
    def __init__(self, env):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space,
                       device=env.device)
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(nn.Linear(self.num_observations + self.num_actions, WIDTH), nn.ReLU(),
                                 nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def compute(self, inputs, role=""):
        return self.net(torch.cat([inputs["observations"], inputs["taken_actions"]], dim=-1)), {}


def make_models(env):
    names = ["critic_1", "critic_2", "target_critic_1", "target_critic_2"]
    return {"policy": Actor(env), **{name: QFunction(env) for name in names}}
