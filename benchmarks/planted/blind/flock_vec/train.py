import os
from types import SimpleNamespace

import numpy as np
import torch as th
import torch.nn as nn
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from flock import FlockVec

cfg = SimpleNamespace(
    n=64, drones=6, n_steps=32, batch=512, epochs=5, lr=4e-4, gamma=0.985, lam=0.95, ent=0.001,
    width=128, emb=128, seed=13, total=200_000_000, say_every=25, save_every=400,
)
WHERE = os.path.dirname(os.path.abspath(__file__))


class DroneSet(BaseFeaturesExtractor):
    """shared encoder per drone, max pooled: order of the drones must not matter"""

    def __init__(self, observation_space, drones, width, emb):
        super().__init__(observation_space, emb + 4)
        self.m = drones
        self.enc = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, emb), nn.ReLU())

    def forward(self, o):
        b = o.shape[0]
        me = o[:, :4]
        rel = o[:, 4:4 + 2 * self.m].reshape(b, self.m, 2)
        vel = o[:, 4 + 2 * self.m:].reshape(b, self.m, 2)
        x = th.cat((rel, vel, me.unsqueeze(1).expand(-1, self.m, -1)), -1)
        return th.cat((self.enc(x).amax(1), me), 1)


class Talk(BaseCallback):
    def __init__(self):
        super().__init__()
        self.it = 0

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        self.it += 1
        if self.it % cfg.say_every == 0 and self.model.ep_info_buffer:
            r = [e["r"] for e in self.model.ep_info_buffer]
            l = [e["l"] for e in self.model.ep_info_buffer]
            std = self.model.policy.log_std.detach().exp().mean().item()
            print(f"it {self.it:5d} steps {self.num_timesteps:9d} ret {np.mean(r):7.3f} len {np.mean(l):6.1f} std {std:.3f}",
                  flush=True)
        if self.it % cfg.save_every == 0:
            self.model.save(os.path.join(WHERE, "weights", "flock"))


def main():
    os.makedirs(os.path.join(WHERE, "weights"), exist_ok=True)
    env = FlockVec(cfg.n, cfg.drones, seed=cfg.seed)
    model = PPO(
        "MlpPolicy", env, n_steps=cfg.n_steps, batch_size=cfg.batch, n_epochs=cfg.epochs, learning_rate=cfg.lr,
        gamma=cfg.gamma, gae_lambda=cfg.lam, ent_coef=cfg.ent, seed=cfg.seed, device="cpu",
        policy_kwargs=dict(features_extractor_class=DroneSet,
                           features_extractor_kwargs=dict(drones=cfg.drones, width=cfg.width, emb=cfg.emb),
                           net_arch=dict(pi=[64], vf=[128]), log_std_init=-0.5),
    )
    model.learn(cfg.total, callback=Talk(), log_interval=None)


if __name__ == "__main__":
    main()
