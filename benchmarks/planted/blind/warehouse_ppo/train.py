"""PPO on the warehouse grid.   python train.py [--cfg config.yaml]"""
import argparse
import ctypes
import multiprocessing as mp
import os
import signal
import time
from collections import deque

import torch as th
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor

from warehouse import WarehouseEnv

HERE = os.path.dirname(os.path.abspath(__file__))
th.set_num_threads(1)


def load_cfg(path):
    with open(path) as f:
        cfg = yaml.safe_load(f)
    return cfg


def make_one(env_kwargs, rank, seed):
    def _f():
        if mp.parent_process() is not None:
            # otherwise the workers stay around when the run is killed
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        e = WarehouseEnv(**env_kwargs)
        e.reset(seed=seed + 100 * rank)
        return e
    return _f


def build_vec(cfg):
    fns = [make_one(cfg["env"], i, cfg["seed"]) for i in range(cfg["vec"]["n_envs"])]
    kind = cfg["vec"]["kind"]
    if kind == "subproc":
        v = SubprocVecEnv(fns, start_method="fork")
    elif kind == "dummy":
        v = DummyVecEnv(fns)
    else:
        raise ValueError(kind)
    return VecMonitor(v, info_keywords=())


class DeliveredCallback(BaseCallback):
    """mean orders delivered per episode, into the logger at rollout end"""

    def __init__(self, window=200):
        super().__init__()
        self.hist = deque(maxlen=window)
        self.t0 = time.time()

    def _on_step(self):
        if self.locals["dones"].any():
            for d, inf in zip(self.locals["dones"], self.locals["infos"]):
                if d and "delivered" in inf:
                    self.hist.append(inf["delivered"])
        return True

    def _on_rollout_end(self):
        if self.hist:
            self.logger.record("warehouse/delivered", sum(self.hist) / len(self.hist))
        # self.logger.record("warehouse/wall", time.time() - self.t0)


class SaveCallback(BaseCallback):
    def __init__(self, every, out):
        super().__init__()
        self.every, self.out = every, out
        self.next = every

    def _on_step(self):
        if self.num_timesteps >= self.next:
            self.next += self.every
            self.model.save(os.path.join(self.out, "last_model"))
        return True


def linear(v0):
    return lambda p: v0 * max(p, 0.1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cfg", default=os.path.join(HERE, "config.yaml"))
    ap.add_argument("--steps", type=int, default=None)
    ap.add_argument("-v", "--verbose", type=int, default=1)
    args = ap.parse_args()
    cfg = load_cfg(args.cfg)
    out = os.path.join(HERE, cfg["out"])
    os.makedirs(out, exist_ok=True)

    venv = build_vec(cfg)
    p = cfg["ppo"]
    model = PPO(
        "MlpPolicy", venv,
        n_steps=p["n_steps"], batch_size=p["batch_size"], n_epochs=p["n_epochs"],
        learning_rate=linear(p["learning_rate"]), gamma=p["gamma"], gae_lambda=p["gae_lambda"],
        ent_coef=p["ent_coef"], policy_kwargs=dict(net_arch=list(p["net"]), activation_fn=th.nn.Tanh),
        seed=cfg["seed"], verbose=args.verbose, device="cpu",
    )
    print(model.policy)
    cbs = CallbackList([DeliveredCallback(), SaveCallback(cfg["save_every"], out)])
    try:
        model.learn(args.steps or cfg["total_timesteps"], callback=cbs, log_interval=20)
    except KeyboardInterrupt:
        print("stopped by hand at", model.num_timesteps)
    model.save(os.path.join(out, "final"))
    venv.close()


if __name__ == "__main__":
    main()
