from functools import partial

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from settings import SETTINGS as S
from wh.env import WarehouseEnv
from wh.wrappers import build_pipeline


class Progress(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buf = self.model.ep_info_buffer
        if buf and self.model._n_updates % (5 * S["ppo"]["n_epochs"]) == 0:
            r = sum(e["r"] for e in buf) / len(buf)
            length = sum(e["l"] for e in buf) / len(buf)
            print(f"{self.num_timesteps:>9,d}  return {r:7.3f}  length {length:6.1f}", flush=True)


def make_env(rank):
    env = WarehouseEnv(**S["env"])
    env = build_pipeline(env, S["history"], S["sensor_sigma"])
    env = Monitor(env)
    env.reset(seed=S["seed"] + rank)
    return env


def make_venv():
    return DummyVecEnv([partial(make_env, i) for i in range(S["n_envs"])])


if __name__ == "__main__":
    torch.set_num_threads(1)
    venv = make_venv()
    model = PPO("MlpPolicy", venv, seed=S["seed"], device="cpu", **S["ppo"])
    model.learn(S["total_timesteps"], callback=Progress())
    model.save("picker")
