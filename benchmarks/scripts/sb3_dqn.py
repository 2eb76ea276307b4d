"""Stable-Baselines3 DQN on CartPole, as its users write it: 4 environments, one update of 128 per vector step.

python sb3_dqn.py STEPS
"""

import sys
import time

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

torch.set_num_threads(1)
envs = make_vec_env("CartPole-v1", 4, seed=0)
model = DQN("MlpPolicy", envs, batch_size=128, train_freq=1, gradient_steps=1, seed=0, device="cpu")
begin = time.perf_counter()
model.learn(int(sys.argv[1]))
seconds = time.perf_counter() - begin
returns = [episode["r"] for episode in model.ep_info_buffer or []]
print("mean_return", sum(returns) / max(1, len(returns)))
print("updates", model._n_updates)
print("steps_per_s", model.num_timesteps / seconds, flush=True)
