import csv
import os
import time

import gymnasium as gym
import numpy as np
import torch as th
import yaml
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from wrappers import EnergyBonus, ScaleObs

th.set_num_threads(1)
ROOT = os.path.dirname(os.path.abspath(__file__))


def read_settings():
    with open(os.path.join(ROOT, "settings.yaml")) as fh:
        return yaml.safe_load(fh)


def train_env(s, i):
    def thunk():
        env = Monitor(gym.make(s["env_id"]))
        env = EnergyBonus(env, s["shaping"], s["dqn"]["gamma"])
        env = ScaleObs(env)
        env.action_space.seed(s["seed"] + i)
        env.reset(seed=s["seed"] + i)
        return env
    return thunk


def play(model, env, seed=None):
    o, _ = env.reset(seed=seed)
    total, n = 0.0, 0
    while True:
        a, _ = model.predict(o, deterministic=True)
        o, r, d, t, _ = env.step(int(a))
        total += r
        n += 1
        if d or t:
            return total, n, d


class Report(BaseCallback):
    """plays a few greedy episodes on the unshaped env, writes one csv row, keeps the best"""

    def __init__(self, s, out):
        super().__init__()
        self.every = s["report"]["every"]
        self.episodes = s["report"]["episodes"]
        self.env = ScaleObs(gym.make(s["env_id"]))
        self.out = out
        self.next = s["dqn"]["learning_starts"]
        self.best = -1e9
        self.t0 = time.time()

    def _init_callback(self):
        self.fh = open(os.path.join(self.out, "report.csv"), "w", newline="")
        self.wr = csv.writer(self.fh)
        self.wr.writerow(["steps", "ret", "len", "solved", "eps", "wall"])

    def _on_step(self):
        if self.num_timesteps < self.next:
            return True
        self.next += self.every
        res = [play(self.model, self.env, seed=7000 + k) for k in range(self.episodes)]
        ret = float(np.mean([r[0] for r in res]))
        ln = float(np.mean([r[1] for r in res]))
        ok = sum(r[2] for r in res) / len(res)
        self.wr.writerow([self.num_timesteps, round(ret, 2), round(ln, 1), ok,
                          round(self.model.exploration_rate, 3), round(time.time() - self.t0, 1)])
        self.fh.flush()
        if ret > self.best:
            self.best = ret
            self.model.save(os.path.join(self.out, "best.zip"))
            print("new best", self.num_timesteps, round(ret, 1), "solved", ok, flush=True)
        return True

    def _on_training_end(self):
        self.fh.close()


class QSpread(BaseCallback):
    # wanted to see if q collapses. mostly unused now
    def __init__(self, every=50_000):
        super().__init__()
        self.every = every
        self.grid = th.as_tensor(np.stack(np.meshgrid(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12)), -1)
                                 .reshape(-1, 2).astype(np.float32))

    def _on_step(self):
        if self.n_calls % self.every == 0:
            with th.no_grad():
                q = self.model.q_net(self.grid)
            self.logger.record("q/spread", float((q.max(1).values - q.min(1).values).mean()))
            self.logger.record("q/mean", float(q.mean()))
        return True


def main():
    s = read_settings()
    out = os.path.join(ROOT, "log_mcar")
    os.makedirs(out, exist_ok=True)
    venv = DummyVecEnv([train_env(s, i) for i in range(s["n_envs"])])
    model = DQN("MlpPolicy", venv, policy_kwargs={"net_arch": s["net"]}, seed=s["seed"], device="cpu", verbose=1, **s["dqn"])
    model.learn(s["total"], callback=[Report(s, out), QSpread()], log_interval=400)
    model.save(os.path.join(out, "final.zip"))


if __name__ == "__main__":
    main()
