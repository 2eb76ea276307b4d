import logging
import os

import numpy as np
import torch as th
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

from catcher import Catcher
from nets import SmallImpala

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("catcher")
HERE = os.path.dirname(os.path.abspath(__file__))


class CatchRate(BaseCallback):
    def __init__(self, print_every=60):
        super().__init__()
        self.pos = self.neg = 0
        self.k = 0
        self.print_every = print_every

    def _on_step(self):
        r = self.locals["rewards"]
        self.pos += int((r > 0).sum())
        self.neg += int((r < 0).sum())
        return True

    def _on_rollout_end(self):
        self.k += 1
        if self.k % self.print_every == 0:
            n = self.pos + self.neg
            log.info("%d steps, caught %.3f of %d", self.num_timesteps, self.pos / max(n, 1), n)
            self.pos = self.neg = 0


def build(n, stack, seed):
    v = make_vec_env(Catcher, n_envs=n, seed=seed)
    return VecFrameStack(v, stack, channels_order="first")


def main():
    with open(os.path.join(HERE, "config.yaml")) as f:
        cfg = yaml.safe_load(f)
    out = os.path.join(HERE, "runs", cfg["run"])
    os.makedirs(out, exist_ok=True)
    venv = build(cfg["n_envs"], cfg["stack"], cfg["seed"])
    evenv = build(8, cfg["stack"], 12345)
    model = PPO(
        "CnnPolicy", venv, seed=cfg["seed"], device="cpu", verbose=0,
        policy_kwargs=dict(features_extractor_class=SmallImpala,
                           features_extractor_kwargs=dict(chans=tuple(cfg["extractor"]["chans"]), out=cfg["extractor"]["out"]),
                           net_arch=[], normalize_images=True),
        **cfg["ppo"],
    )
    n_par = sum(p.numel() for p in model.policy.parameters())
    log.info("params %d, torch %s, threads %d", n_par, th.__version__, th.get_num_threads())
    cbs = [
        CatchRate(),
        EvalCallback(evenv, n_eval_episodes=cfg["eval"]["episodes"], eval_freq=cfg["eval"]["every"] // cfg["n_envs"],
                     best_model_save_path=out, verbose=1),
        CheckpointCallback(save_freq=500_000 // cfg["n_envs"], save_path=out, name_prefix="ck"),
    ]
    model.learn(cfg["total"], callback=cbs, log_interval=50)
    model.save(os.path.join(out, "end"))


if __name__ == "__main__":
    main()
