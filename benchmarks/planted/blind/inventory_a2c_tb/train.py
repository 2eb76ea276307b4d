"""
Multi item inventory with lead times, A2C.

tensorboard --logdir tb
"""
import os
from collections import defaultdict
from datetime import datetime

import gymnasium as gym
import numpy as np
import torch as th
import torch.nn as nn
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

th.set_num_threads(1)
BASE = os.path.dirname(os.path.abspath(__file__))

ITEMS = 4
LEAD = 3
ORDER = np.array([0.0, 4.0, 8.0, 14.0])


class InventoryEnv(gym.Env):
    def __init__(self, horizon=90, hold=0.05, lost=0.6, fixed=0.25):
        self.horizon, self.hold, self.lost, self.fixed = horizon, hold, lost, fixed
        self.observation_space = spaces.Box(-5, 5, (ITEMS * (LEAD + 2) + 2,), np.float32)
        self.action_space = spaces.MultiDiscrete([4] * ITEMS)
        self.base = np.array([2.0, 3.0, 4.5, 6.0])

    def _o(self):
        ph = 2 * np.pi * self.t / 7.0
        return np.concatenate((self.stock / 20 - 1, self.last_demand / 10, self.pipe.ravel() / 10,
                               (np.sin(ph), np.cos(ph)))).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.stock = self.np_random.uniform(5, 20, ITEMS)
        self.pipe = np.zeros((LEAD, ITEMS))
        self.last_demand = self.base.copy()
        self.served = self.asked = 0.0
        return self._o(), {}

    def step(self, a):
        q = ORDER[a]
        self.stock += self.pipe[0]
        self.pipe[:-1] = self.pipe[1:]
        self.pipe[-1] = q
        season = 1.0 + 0.4 * np.sin(2 * np.pi * self.t / 7.0)
        d = self.np_random.poisson(self.base * season)
        sold = np.minimum(self.stock, d)
        self.stock -= sold
        self.served += sold.sum()
        self.asked += d.sum()
        c_hold = self.hold * self.stock.sum()
        c_lost = self.lost * (d - sold).sum()
        c_fix = self.fixed * np.count_nonzero(q)
        r = 0.3 * sold.sum() - c_hold - c_lost - c_fix
        self.last_demand = d
        self.t += 1
        info = {"c_hold": c_hold, "c_lost": c_lost, "c_fix": c_fix, "stock": self.stock.mean(),
                "service": self.served / max(self.asked, 1.0)}
        return self._o(), float(r) * 0.1, False, self.t >= self.horizon, info


class ItemNet(BaseFeaturesExtractor):
    """same little net for every item, then concat with the weekday"""

    def __init__(self, observation_space, per_item=12):
        super().__init__(observation_space, features_dim=ITEMS * per_item + 2)
        self.net = nn.Sequential(nn.Linear(LEAD + 2, 32), nn.ReLU(), nn.Linear(32, per_item), nn.ReLU())

    def forward(self, obs):
        b = obs.shape[0]
        x = obs[:, :-2].reshape(b, LEAD + 2, ITEMS).transpose(1, 2)
        return th.cat((self.net(x).flatten(1), obs[:, -2:]), dim=1)


class CostCallback(BaseCallback):
    KEYS = ("c_hold", "c_lost", "c_fix", "stock", "service")

    def __init__(self, smooth=0.98):
        super().__init__()
        self.smooth = smooth
        self.ema = defaultdict(float)
        self.orders = np.zeros(4)

    def _on_step(self):
        infos = self.locals["infos"]
        for k in self.KEYS:
            v = sum(i[k] for i in infos) / len(infos)
            self.ema[k] = self.smooth * self.ema[k] + (1 - self.smooth) * v
            self.logger.record(f"costs/{k}", v)
            self.logger.record(f"costs_ema/{k}", self.ema[k])
        acts = self.locals["actions"]
        self.orders = 0.99 * self.orders + 0.01 * np.bincount(acts.ravel(), minlength=4) / acts.size
        for j in range(4):
            self.logger.record(f"orders/{j}", self.orders[j])
        self.logger.record("rollout/reward", float(self.locals["rewards"].mean()))
        self.logger.dump(self.num_timesteps)
        return True


class SaveBest(BaseCallback):
    def __init__(self, path, check=50_000):
        super().__init__()
        self.path, self.check, self.best, self.nxt = path, check, -np.inf, check

    def _on_step(self):
        if self.num_timesteps > self.nxt and len(self.model.ep_info_buffer):
            self.nxt += self.check
            m = np.mean([e["r"] for e in self.model.ep_info_buffer])
            if m > self.best:
                self.best = m
                self.model.save(self.path)
            print(datetime.now().strftime("%H:%M:%S"), self.num_timesteps, "ep_rew", round(float(m), 3), flush=True)
        return True


config = {
    "n_envs": 8,
    "n_steps": 10,
    "gamma": 0.97,
    "lr": 6e-4,
    "ent": 0.005,
    "total": 30_000_000,
    "seed": 0,
}


if __name__ == "__main__":
    tb = os.path.join(BASE, "tb")
    os.makedirs(tb, exist_ok=True)
    envs = make_vec_env(InventoryEnv, n_envs=config["n_envs"], seed=config["seed"])
    model = A2C("MlpPolicy", envs, n_steps=config["n_steps"], gamma=config["gamma"], learning_rate=config["lr"],
                ent_coef=config["ent"], use_rms_prop=True, seed=config["seed"], device="cpu",
                policy_kwargs=dict(features_extractor_class=ItemNet, net_arch=[64]))
    model.set_logger(configure(tb, ["tensorboard", "csv"]))
    model.learn(config["total"], callback=[CostCallback(), SaveBest(os.path.join(tb, "best"))],
                log_interval=100_000)
