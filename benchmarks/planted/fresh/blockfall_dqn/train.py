import argparse

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.monitor import Monitor

from blockfall import BlockFall, RunKeeper

parser = argparse.ArgumentParser()
parser.add_argument("--run", default="runs/bf0")
parser.add_argument("--memory", type=int, default=100_000)
parser.add_argument("--save-every", type=int, default=1000)
parser.add_argument("--steps", type=int, default=3_000_000)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)

env = Monitor(BlockFall())
model = DQN(
    "MlpPolicy", env,
    learning_rate=3e-4, buffer_size=args.memory, learning_starts=1000, batch_size=64,
    gamma=0.95, train_freq=4, target_update_interval=2000,
    exploration_fraction=0.05, exploration_final_eps=0.03,
    policy_kwargs=dict(net_arch=[128, 128]), device="cpu", seed=0, verbose=1,
)
keeper = RunKeeper(args.run, every=args.save_every)
model.learn(args.steps, callback=keeper, log_interval=100)
