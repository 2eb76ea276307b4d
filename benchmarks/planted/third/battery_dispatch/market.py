"""Batteries at several sites trading against a day-ahead price (15-minute steps)."""
import math

import torch
from tensordict import TensorDict
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

POWER = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0])   # discharge ... charge
OBS_DIM = 8
CAPACITY_STEPS = 8.0        # a full charge takes 8 steps at full power
EFFICIENCY = 0.93


class SiteModel:
    """The dynamics, shared by the online environment and by the log replayer."""

    def __init__(self, n: int, horizon: int, generator: torch.Generator):
        self.n, self.horizon, self.gen = n, horizon, generator

    def reset(self):
        g, n = self.gen, self.n
        self.t = 0
        self.phase = torch.rand(n, generator=g) * 2 * math.pi
        self.soc = torch.rand(n, generator=g)
        self.load = 0.5 + 0.2 * torch.randn(n, generator=g)
        self.shock = torch.zeros(n)
        self.price = self._price()
        self.ema = self.price.clone()
        return self.observe()

    def _price(self):
        angle = self.phase + 2 * math.pi * self.t / self.horizon
        return 0.5 + 0.3 * torch.sin(angle) + 0.15 * torch.sin(2 * angle + 1.0) + self.shock

    def observe(self):
        angle = self.phase + 2 * math.pi * self.t / self.horizon
        return torch.stack(
            [self.soc, self.price, self.ema, self.load, torch.sin(angle), torch.cos(angle),
             self.price - self.ema, torch.full_like(self.soc, self.t / self.horizon)], dim=-1)

    def step(self, action: torch.Tensor):
        want = POWER[action]
        soc = (self.soc + want / CAPACITY_STEPS).clamp(0.0, 1.0)
        power = (soc - self.soc) * CAPACITY_STEPS
        grid = torch.where(power > 0, power / EFFICIENCY, power * EFFICIENCY)
        peak = (self.load + grid - 1.2).clamp(min=0.0)
        reward = -grid * self.price - 0.5 * peak ** 2 - 0.01 * power.abs()
        self.soc = soc
        self.t += 1
        self.shock = 0.9 * self.shock + 0.05 * torch.randn(self.n, generator=self.gen)
        self.load = 0.5 + 0.9 * (self.load - 0.5) + 0.08 * torch.randn(self.n, generator=self.gen)
        self.price = self._price()
        self.ema = 0.85 * self.ema + 0.15 * self.price
        return self.observe(), reward, self.t >= self.horizon


class DispatchEnv(EnvBase):
    def __init__(self, sites: int, horizon: int, seed: int = 0):
        super().__init__(device="cpu", batch_size=torch.Size([sites]))
        self.rng = torch.Generator().manual_seed(seed)
        self.model = SiteModel(sites, horizon, self.rng)
        self.observation_spec = Composite(
            observation=Unbounded(shape=(sites, OBS_DIM)), shape=(sites,))
        self.action_spec = Categorical(len(POWER), shape=(sites,))
        self.reward_spec = Unbounded(shape=(sites, 1))

    def _set_seed(self, seed):
        self.rng.manual_seed(seed)

    def _flags(self, over: bool):
        return torch.full((*self.batch_size, 1), over, dtype=torch.bool)

    def _reset(self, tensordict=None, **kwargs):
        # all sites share the clock, so a reset is always a reset of all of them
        return TensorDict({"observation": self.model.reset(),
                           "done": self._flags(False), "terminated": self._flags(False)},
                          batch_size=self.batch_size)

    def _step(self, tensordict):
        obs, reward, over = self.model.step(tensordict["action"])
        return TensorDict({"observation": obs, "reward": reward.unsqueeze(-1),
                           "done": self._flags(over), "terminated": self._flags(over)},
                          batch_size=self.batch_size)


def load_history(episodes: int, horizon: int, noise: float, seed: int) -> TensorDict:
    """What the rule-based controller did at the pilot sites, as transitions in time order."""
    gen = torch.Generator().manual_seed(seed)
    model = SiteModel(episodes, horizon, gen)
    obs = model.reset()
    rows = []
    for _ in range(horizon):
        cheap, dear = obs[:, 6] < -0.04, obs[:, 6] > 0.04
        action = torch.where(cheap, 4, torch.where(dear, 0, 2))
        random = torch.randint(0, len(POWER), (episodes,), generator=gen)
        action = torch.where(torch.rand(episodes, generator=gen) < noise, random, action)
        nxt, reward, over = model.step(action)
        flag = torch.full((episodes, 1), over, dtype=torch.bool)
        rows.append(TensorDict(
            {"observation": obs, "action": action,
             "next": {"observation": nxt, "reward": reward.unsqueeze(-1),
                      "done": flag, "terminated": flag.clone()}}, batch_size=[episodes]))
        obs = nxt
    data = torch.stack(rows, dim=1)
    data["episode"] = torch.arange(episodes).unsqueeze(-1).expand(episodes, horizon).clone()
    return data.reshape(-1)
