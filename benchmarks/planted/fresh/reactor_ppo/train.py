import logging
from functools import partial
from pathlib import Path

import torch
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from guard import MemoryGuard
from plant import ReactorEnv

HERE = Path(__file__).parent
logging.basicConfig(level=logging.INFO)


def main():
    cfg = yaml.safe_load((HERE / "config.yaml").read_text())
    torch.set_num_threads(1)
    venv = VecMonitor(DummyVecEnv([partial(ReactorEnv, **cfg["plant"]) for _ in range(cfg["n_envs"])]))
    hp = dict(cfg["ppo"])
    model = PPO("MlpPolicy", venv, policy_kwargs=dict(net_arch=hp.pop("net_arch")), seed=cfg["seed"],
                device=cfg["device"], **hp)
    model.set_logger(configure(str(HERE / "logs"), ["csv", "stdout"]))
    model.learn(cfg["total_timesteps"], log_interval=10,
                callback=[CheckpointCallback(50_000, str(HERE / "ckpt")), MemoryGuard(**cfg["memory"])])


if __name__ == "__main__":
    main()
