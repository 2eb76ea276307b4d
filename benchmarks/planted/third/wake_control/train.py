#!/usr/bin/env python
"""PPO for the flow-control benchmark of the 2-D Kolmogorov flow."""
import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from env import FlowControlEnv

log = logging.getLogger("flow")


@dataclass
class Config:
    seed: int = 7
    n_envs: int = 4
    total_timesteps: int = 3_000_000
    n_steps: int = 128
    batch_size: int = 256
    n_epochs: int = 4
    learning_rate: float = 3e-4
    gamma: float = 0.98
    net: list = field(default_factory=lambda: [128, 128])
    grid: int = 160
    substeps: int = 6
    out: str = "runs/flow"


class ReturnLogger(BaseCallback):
    """One line per rollout."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        eps = self.model.ep_info_buffer
        if eps:
            mean = sum(e["r"] for e in eps) / len(eps)
            log.info("steps %8d   return %8.2f   (%d episodes)", self.num_timesteps, mean, len(eps))


def main(cfg: Config):
    out = Path(cfg.out)
    out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    log.info("config %s", asdict(cfg))
    th.set_num_threads(1)

    venv = make_vec_env(
        FlowControlEnv,
        n_envs=cfg.n_envs,
        seed=cfg.seed,
        env_kwargs=dict(n=cfg.grid, substeps=cfg.substeps),
    )
    model = PPO(
        "MlpPolicy",
        venv,
        n_steps=cfg.n_steps,
        batch_size=cfg.batch_size,
        n_epochs=cfg.n_epochs,
        learning_rate=cfg.learning_rate,
        gamma=cfg.gamma,
        policy_kwargs=dict(net_arch=cfg.net, activation_fn=th.nn.Tanh),
        seed=cfg.seed,
        device="cpu",
    )
    model.learn(cfg.total_timesteps, callback=ReturnLogger())
    model.save(out / "model")


if __name__ == "__main__":
    main(Config())
