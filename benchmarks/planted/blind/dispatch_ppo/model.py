import torch as th
import torch.nn as nn
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class FleetExtractor(BaseFeaturesExtractor):
    def __init__(self, observation_space, width=48, out=64):
        super().__init__(observation_space, features_dim=out)
        k = observation_space["fleet"].shape[1]
        z = observation_space["demand"].shape[0]
        c = observation_space["call"].shape[0]
        self.veh = nn.Sequential(nn.Linear(k + c, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.dem = nn.Sequential(nn.Linear(z, 32), nn.ReLU())
        nv = observation_space["fleet"].shape[0]
        self.mix = nn.Sequential(nn.Linear(nv * width + 32 + c, out), nn.LayerNorm(out), nn.ReLU())

    def forward(self, o):
        f, c = o["fleet"], o["call"]
        n = f.shape[1]
        x = self.veh(th.cat((f, c.unsqueeze(1).expand(-1, n, -1)), -1))
        return self.mix(th.cat((x.flatten(1), self.dem(o["demand"]), c), 1))
