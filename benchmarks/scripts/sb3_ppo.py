"""Stable-Baselines3 PPO on CartPole, as its users write it. Says how fast its own loop ran."""

import sys
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

torch.set_num_threads(1)
steps = int(sys.argv[1])
model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8, seed=0), n_steps=128, batch_size=256, n_epochs=4, seed=0, device="cpu")
begin = time.perf_counter()
model.learn(steps)
print("steps_per_s", model.num_timesteps / (time.perf_counter() - begin), flush=True)
