"""Stable-Baselines3's PPO on CartPole, 1.8 with gym or 2.x with Gymnasium: `python sb3_ppo.py STEPS`."""

import hashlib
import json
import sys

import torch
from stable_baselines3 import PPO

torch.set_num_threads(1)
model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, batch_size=64, n_epochs=4, seed=0, device="cpu")
model.learn(int(sys.argv[1]))
weights = b"".join(value.numpy().tobytes() for value in model.policy.state_dict().values())
print(json.dumps({"env_steps": model.num_timesteps, "weights": hashlib.sha256(weights).hexdigest()}))
