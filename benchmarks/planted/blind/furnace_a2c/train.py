import os
import sys

import numpy as np
import torch as th
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize
from stable_baselines3.common.logger import configure

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from furnace_env import FurnaceEnv

th.set_num_threads(1)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")

CFG = {
    "n_envs": 4,
    "env_kwargs": {"n": 40, "dt": 2.0, "horizon": 150},
    "a2c": dict(
        n_steps=12,
        gamma=0.97,
        gae_lambda=0.95,
        learning_rate=7e-4,
        ent_coef=0.0,
        vf_coef=0.4,
        max_grad_norm=0.5,
        use_rms_prop=False,
        normalize_advantage=True,
    ),
    "total": 5_000_000,
}


class TempStats(BaseCallback):
    # mean |error| as the controller sees it, from the last obs of each rollout
    def __init__(self):
        super().__init__()
        self.errs = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        ob = self.training_env.get_original_obs()
        self.errs.append(float(np.abs(ob[:, :16] - ob[:, 16:17]).mean()))
        if len(self.errs) >= 25:
            self.logger.record("furnace/abs_err", np.mean(self.errs))
            self.errs = []


def make_envs(seed=3):
    v = make_vec_env(FurnaceEnv, n_envs=CFG["n_envs"], seed=seed, env_kwargs=CFG["env_kwargs"], vec_env_cls=DummyVecEnv)
    v = VecNormalize(v, norm_obs=True, norm_reward=True, clip_obs=8.0, gamma=CFG["a2c"]["gamma"])
    return v


def baseline(n=200):
    """constant half power, just to compare"""
    e = FurnaceEnv(**CFG["env_kwargs"])
    e.reset(seed=0)
    tot = 0
    for _ in range(n):
        _, r, _, tr, _ = e.step(np.zeros(4, np.float32))
        tot += r
        if tr:
            e.reset()
    return tot / n


def main():
    os.makedirs(OUT, exist_ok=True)
    if "--baseline" in sys.argv:
        print(baseline())
        return
    venv = make_envs()
    model = A2C(
        "MlpPolicy",
        venv,
        policy_kwargs=dict(net_arch=dict(pi=[64, 64], vf=[64, 64]), log_std_init=-0.7),
        device="cpu",
        seed=3,
        verbose=1,
        **CFG["a2c"],
    )
    model.set_logger(configure(OUT, ["stdout", "csv"]))
    ck = CheckpointCallback(save_freq=20_000, save_path=OUT, name_prefix="furnace", save_vecnormalize=True)
    model.learn(CFG["total"], callback=[TempStats(), ck], log_interval=25)
    model.save(os.path.join(OUT, "furnace_final"))
    venv.save(os.path.join(OUT, "vecnorm.pkl"))


if __name__ == "__main__":
    main()
