import torch as th
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class PriceHistoryEncoder(BaseFeaturesExtractor):
    """Summary of the last hours of the market by a recurrent net."""

    def __init__(self, observation_space, hidden=32):
        super().__init__(observation_space, features_dim=hidden + observation_space.shape[1])
        self.hidden = hidden
        self.rnn = nn.LSTM(observation_space.shape[1], hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, obs):
        h = th.zeros(1, obs.shape[0], self.hidden, device=obs.device)
        c = th.zeros_like(h)
        for t in range(obs.shape[1]):
            _, (h, c) = self.rnn(obs[:, t:t + 1], (h, c))
        return th.cat([self.norm(h[0]), obs[:, -1]], dim=1)
