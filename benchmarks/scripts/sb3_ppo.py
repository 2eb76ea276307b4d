"""Stable-Baselines3 PPO on CartPole, as its users write it. Says how fast its own loop ran.

python sb3_ppo.py STEPS [MINIBATCH]
"""

import sys
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

torch.set_num_threads(1)
steps, minibatch = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 256
envs = make_vec_env("CartPole-v1", 8, seed=0)
model = PPO("MlpPolicy", envs, n_steps=128, batch_size=minibatch, n_epochs=4, learning_rate=1e-3, seed=0, device="cpu")
begin, cpu_begin = time.perf_counter(), time.process_time()
model.learn(steps)
returns = [episode["r"] for episode in model.ep_info_buffer or []]
print("mean_return", sum(returns) / max(1, len(returns)))
print("cpu_s_per_step", (time.process_time() - cpu_begin) / model.num_timesteps)
print("steps_per_s", model.num_timesteps / (time.perf_counter() - begin), flush=True)
