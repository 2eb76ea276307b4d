from dataclasses import asdict, dataclass, field

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from encoder import PriceHistoryEncoder
from vec_battery import BatteryVecEnv


@dataclass
class PPOConfig:
    n_steps: int = 32
    batch_size: int = 256
    n_epochs: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    learning_rate: float = 5e-4
    ent_coef: float = 0.005
    max_grad_norm: float = 0.5


@dataclass
class Config:
    n_batteries: int = 32
    window: int = 24
    hidden: int = 32
    seed: int = 1
    steps: int = 10_000_000
    ppo: PPOConfig = field(default_factory=PPOConfig)


class ProfitPrinter(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        if self.model.ep_info_buffer:
            r = [e["r"] for e in self.model.ep_info_buffer]
            print(f"{self.num_timesteps:>9d}  profit/week {sum(r) / len(r):7.3f}", flush=True)


def main(cfg=Config()):
    th.set_num_threads(1)
    env = BatteryVecEnv(cfg.n_batteries, window=cfg.window, seed=cfg.seed)
    model = PPO("MlpPolicy", env, device="cpu", seed=cfg.seed, verbose=0,
                policy_kwargs=dict(features_extractor_class=PriceHistoryEncoder,
                                   features_extractor_kwargs=dict(hidden=cfg.hidden),
                                   net_arch=[64]),
                **asdict(cfg.ppo))
    model.learn(cfg.steps, callback=ProfitPrinter())


if __name__ == "__main__":
    main()
