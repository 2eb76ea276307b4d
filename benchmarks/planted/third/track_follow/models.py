import torch
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from torch import nn


def body(inputs, width=64):
    return nn.Sequential(nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width), nn.ELU())


class Driver(GaussianMixin, Model):
    def __init__(self, observation_space, action_space, device):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        GaussianMixin.__init__(self, clip_actions=False, clip_log_std=True, min_log_std=-4, max_log_std=1)
        self.net = nn.Sequential(body(self.num_observations), nn.Linear(64, self.num_actions))
        self.log_std = nn.Parameter(torch.full((self.num_actions,), -0.5))

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Critic(DeterministicMixin, Model):
    def __init__(self, observation_space, action_space, device):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(body(self.num_observations), nn.Linear(64, 1))

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}
