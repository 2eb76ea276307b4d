import os
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from stable_baselines3 import A2C
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv

from agv_env import YardEnv
from callbacks import DrivingStats

N_ENVS = 4
TOTAL = 3_000_000


def make(rank):
    def _init():
        torch.set_num_threads(1)
        env = Monitor(YardEnv(seed=rank))
        env.reset(seed=1000 + rank)
        return env
    return _init


if __name__ == "__main__":
    torch.set_num_threads(1)
    envs = SubprocVecEnv([make(i) for i in range(N_ENVS)], start_method="fork")
    model = A2C("MlpPolicy", envs, n_steps=16, learning_rate=5e-4, gamma=0.99, ent_coef=0.002,
                policy_kwargs=dict(net_arch=dict(pi=[128, 64], vf=[128, 64])), device="cpu", verbose=1)
    model.learn(TOTAL, callback=DrivingStats(), log_interval=25)
    model.save("agv_a2c")
