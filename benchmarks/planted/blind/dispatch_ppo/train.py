import os
import sys
from functools import partial

import numpy as np
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from dispatch_env import DispatchEnv
from model import FleetExtractor

th.set_num_threads(1)
D = os.path.dirname(os.path.abspath(__file__))

CONFIG = dict(
    env=dict(zones=12, vehicles=4, calls=100),
    n_envs=16,
    seed=9,
    total=20_000_000,
    ppo=dict(
        n_steps=64,
        batch_size=32,
        n_epochs=8,
        learning_rate=2.5e-4,
        gamma=0.95,
        gae_lambda=0.9,
        clip_range=0.2,
        ent_coef=0.01,
        vf_coef=0.5,
        target_kl=None,
    ),
    policy=dict(
        features_extractor_class=FleetExtractor,
        features_extractor_kwargs=dict(width=48, out=64),
        net_arch=dict(pi=[64], vf=[64]),
    ),
)


class LrDrop(BaseCallback):
    """halve the lr when the mean return stalls"""

    def __init__(self, patience=60, min_lr=3e-5):
        super().__init__()
        self.best, self.bad, self.patience, self.min_lr = -np.inf, 0, patience, min_lr
        self.cur = None

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        if self.cur is None:
            self.cur = float(self.model.lr_schedule(1.0))
        buf = self.model.ep_info_buffer
        if not buf:
            return
        m = np.mean([x["r"] for x in buf])
        if m > self.best + 0.1:
            self.best, self.bad = m, 0
        else:
            self.bad += 1
        if self.bad > self.patience and self.cur > self.min_lr:
            self.cur *= 0.5
            self.bad = 0
            lr = self.cur
            self.model.lr_schedule = lambda _: lr
            if self.verbose:
                print("lr ->", lr)


def greedy_nearest(n=20):
    # reference number, nearest free vehicle
    e = DispatchEnv(CONFIG["env"])
    out = []
    for k in range(n):
        o, _ = e.reset(seed=k)
        tot = 0.0
        while True:
            cost = o["fleet"][:, 2] + 10 * (o["fleet"][:, 1] > 0)
            o, r, _, tr, _ = e.step(int(np.argmin(cost)))
            tot += r
            if tr:
                break
        out.append(tot)
    return np.mean(out), np.std(out)


def main():
    set_random_seed(CONFIG["seed"])
    if "--ref" in sys.argv:
        print("nearest free: %.2f +- %.2f" % greedy_nearest())
        return
    fn = partial(DispatchEnv, CONFIG["env"])
    venv = make_vec_env(fn, n_envs=CONFIG["n_envs"], seed=CONFIG["seed"], vec_env_cls=DummyVecEnv)
    ev = EvalCallback(make_vec_env(fn, n_envs=4, seed=500), n_eval_episodes=8, eval_freq=25_000,
                      best_model_save_path=os.path.join(D, "saved"), verbose=1)
    model = PPO("MultiInputPolicy", venv, policy_kwargs=CONFIG["policy"], device="cpu", seed=CONFIG["seed"],
                verbose=1, **CONFIG["ppo"])
    model.learn(CONFIG["total"], callback=[LrDrop(), ev], log_interval=25)
    model.save(os.path.join(D, "saved", "dispatch"))


if __name__ == "__main__":
    main()
