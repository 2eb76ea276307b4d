#!/usr/bin/env python
import argparse
import ctypes
import multiprocessing
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each worker gets one core, see below

import numpy as np
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

from antenna import ArrayEnv

here = os.path.dirname(os.path.abspath(__file__))


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n-envs", type=int, default=4)
    ap.add_argument("--n-steps", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--gamma", type=float, default=0.9)
    ap.add_argument("--side", type=int, default=20)
    ap.add_argument("--seed", type=int, default=77)
    ap.add_argument("--total", type=int, default=1_000_000)
    ap.add_argument("--tag", default="a")
    return ap.parse_args()


def make_array(**kw):
    if multiprocessing.parent_process() is not None:
        ctypes.CDLL("libc.so.6").prctl(1, 15)  # PR_SET_PDEATHSIG, no zombies after kill -9
    return ArrayEnv(**kw)


class Track(BaseCallback):
    def __init__(self, path, every=2048):
        super().__init__()
        self.path, self.every, self.nx = path, every, every
        self.t0 = time.time()
        self.best = -np.inf

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        if self.num_timesteps < self.nx:
            return
        self.nx += self.every
        eps = self.model.ep_info_buffer
        m = float(np.mean([e["r"] for e in eps])) if eps else float("nan")
        print(f"{self.num_timesteps:>8} ret {m:7.2f}  {self.num_timesteps / (time.time() - self.t0):.0f}/s", flush=True)
        if m > self.best:
            self.best = m
            self.model.save(self.path)


if __name__ == "__main__":
    a = parse()
    th.set_num_threads(1)
    store = os.path.join(here, "store")
    os.makedirs(store, exist_ok=True)
    venv = make_vec_env(make_array, n_envs=a.n_envs, seed=a.seed, env_kwargs={"side": a.side},
                        vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"})
    venv = VecNormalize(venv, norm_obs=False, norm_reward=True, gamma=a.gamma)
    model = PPO("MlpPolicy", venv, n_steps=a.n_steps, batch_size=a.n_steps * a.n_envs, n_epochs=a.epochs,
                learning_rate=a.lr, gamma=a.gamma, gae_lambda=0.9, device="cpu", seed=a.seed,
                policy_kwargs=dict(net_arch=[96, 96], log_std_init=-1.0))
    try:
        model.learn(a.total, callback=Track(os.path.join(store, "best_" + a.tag)), log_interval=None)
    finally:
        venv.close()
