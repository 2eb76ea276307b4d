import torch
import torch.nn as nn
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model


def trunk(i, width):
    return nn.Sequential(nn.Linear(i, width), nn.ELU(), nn.Linear(width, width), nn.ELU(), nn.Linear(width, width // 2), nn.ELU())


class Pilot(GaussianMixin, Model):
    def __init__(self, observation_space, action_space, device, width=128):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        GaussianMixin.__init__(self, clip_actions=False)
        self.body = trunk(self.num_observations, width)
        self.mu = nn.Linear(width // 2, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role):
        return torch.tanh(self.mu(self.body(inputs["observations"]))), {"log_std": self.log_std}


class Critic(DeterministicMixin, Model):
    def __init__(self, observation_space, action_space, device, width=128):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        DeterministicMixin.__init__(self)
        self.body = trunk(self.num_observations, width)
        self.v = nn.Linear(width // 2, 1)

    def compute(self, inputs, role):
        return self.v(self.body(inputs["observations"])), {}
