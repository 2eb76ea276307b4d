import torch
import torch.nn as nn
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model


class ActorCritic(GaussianMixin, DeterministicMixin, Model):
    """One trunk for both, as in the Isaac examples."""

    def __init__(self, observation_space, action_space, device, units):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device)
        GaussianMixin.__init__(self, clip_actions=False, min_log_std=-5, max_log_std=1, role="policy")
        DeterministicMixin.__init__(self, role="value")
        layers, width = [], self.num_observations
        for unit in units:
            layers += [nn.Linear(width, unit), nn.ELU()]
            width = unit
        self.trunk = nn.Sequential(*layers)
        self.mean = nn.Linear(width, self.num_actions)
        self.log_std = nn.Parameter(torch.zeros(self.num_actions))
        self.value = nn.Linear(width, 1)
        self._shared = None

    def act(self, inputs, role):
        if role == "policy":
            return GaussianMixin.act(self, inputs, role=role)
        return DeterministicMixin.act(self, inputs, role=role)

    def compute(self, inputs, role):
        if role == "policy":
            self._shared = self.trunk(inputs["observations"])
            return self.mean(self._shared), {"log_std": self.log_std}
        shared = self.trunk(inputs["observations"]) if self._shared is None else self._shared
        self._shared = None
        return self.value(shared), {}
