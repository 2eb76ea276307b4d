"""TD3 arm reach. Cluster queue kills jobs after 4h so it has to be able to continue: --resume"""
import argparse
import os
from pathlib import Path

import numpy as np
import torch as th
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

from arm import Arm3

th.set_num_threads(1)
HERE = Path(__file__).resolve().parent


class Resumable(BaseCallback):
    """keeps one up-to-date copy of everything in <dir>"""

    def __init__(self, folder, every):
        super().__init__()
        self.folder = Path(folder)
        self.every = every
        self.saved_at = 0

    def _init_callback(self):
        self.folder.mkdir(parents=True, exist_ok=True)

    def _on_step(self):
        if self.num_timesteps - self.saved_at < self.every:
            return True
        self.saved_at = self.num_timesteps
        tmp = self.folder / "model_tmp"
        self.model.save(tmp)
        os.replace(str(tmp) + ".zip", self.folder / "model.zip")
        self.model.save_replay_buffer(self.folder / "buffer_tmp.pkl")
        os.replace(self.folder / "buffer_tmp.pkl", self.folder / "buffer.pkl")
        (self.folder / "step.txt").write_text(str(self.num_timesteps))
        return True


class DistCb(BaseCallback):
    def __init__(self, every=4000):
        super().__init__()
        self.every, self.acc, self.n, self.last = every, 0.0, 0, 0

    def _on_step(self):
        for i in self.locals["infos"]:
            self.acc += i["dist"]
            self.n += 1
        if self.num_timesteps - self.last >= self.every:
            self.last = self.num_timesteps
            print(f"step {self.num_timesteps}  dist {self.acc / self.n:.4f}  buf {self.model.replay_buffer.size()}", flush=True)
            self.acc, self.n = 0.0, 0
        return True


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--envs", type=int, default=4)
    p.add_argument("--hist", type=int, default=10)
    p.add_argument("--buffer", type=int, default=400_000)
    p.add_argument("--save-every", type=int, default=2_000)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--sigma", type=float, default=0.15)
    p.add_argument("--total", type=int, default=5_000_000)
    p.add_argument("--resume", action="store_true")
    p.add_argument("--dir", default=str(HERE / "ckpt"))
    return p.parse_args()


def main():
    a = get_args()
    venv = make_vec_env(Arm3, n_envs=a.envs, seed=2, env_kwargs={"hist": a.hist})
    noise = VectorizedActionNoise(NormalActionNoise(np.zeros(3), a.sigma * np.ones(3)), a.envs)
    folder = Path(a.dir)
    if a.resume and (folder / "model.zip").exists():
        model = TD3.load(folder / "model.zip", env=venv, device="cpu")
        model.load_replay_buffer(folder / "buffer.pkl")
        print("resumed at", (folder / "step.txt").read_text())
    else:
        model = TD3(
            "MlpPolicy", venv,
            learning_rate=a.lr, buffer_size=a.buffer, learning_starts=1000, batch_size=a.batch,
            train_freq=4, gradient_steps=8, gamma=0.97, tau=0.01, action_noise=noise, policy_delay=2,
            policy_kwargs=dict(net_arch=[96, 96]), device="cpu", seed=2,
        )
    cbs = CallbackList([Resumable(folder, a.save_every), DistCb()])
    model.learn(a.total, callback=cbs, log_interval=None, reset_num_timesteps=not a.resume)


if __name__ == "__main__":
    main()
