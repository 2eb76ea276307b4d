import sys
import time
from pathlib import Path

from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env

from arm import PlanarArm
from conf import load


class Line(BaseCallback):
    def __init__(self, every):
        super().__init__()
        self.every = every
        self.mark = (0, time.time())

    def _on_step(self):
        steps, t = self.mark
        if self.num_timesteps - steps >= self.every:
            now = time.time()
            eps = self.model.ep_info_buffer
            ret = sum(e["r"] for e in eps) / max(len(eps), 1)
            print(f"{self.num_timesteps:8d}  {(self.num_timesteps - steps) / (now - t):7.1f} steps/s  return {ret:8.2f}",
                  flush=True)
            self.mark = (self.num_timesteps, now)
        return True


def main(overrides):
    cfg = load(["configs/base.yaml", "configs/sac.yaml"], overrides)
    Path(cfg.run_dir).mkdir(parents=True, exist_ok=True)
    e = cfg.env
    venv = make_vec_env(
        PlanarArm,
        n_envs=e.n_envs,
        seed=cfg.seed,
        env_kwargs=dict(links=e.links, horizon=e.horizon, control_penalty=e.control_penalty),
    )
    model = SAC("MlpPolicy", venv, seed=cfg.seed, device=cfg.device, **cfg.algo)
    model.learn(
        cfg.total_timesteps,
        callback=[
            Line(cfg.log.every),
            CheckpointCallback(cfg.log.checkpoint_every // e.n_envs, cfg.run_dir, name_prefix="sac"),
        ],
        log_interval=None,
    )
    model.save(Path(cfg.run_dir) / "final")


if __name__ == "__main__":
    main(sys.argv[1:])
