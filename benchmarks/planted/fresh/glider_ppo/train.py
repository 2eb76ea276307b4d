import argparse

import torch as th

from exp_manager import ExperimentManager

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--algo", default="ppo")
    p.add_argument("--env", default="Glider-v0")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--log-folder", default="logs")
    a = p.parse_args()
    th.set_num_threads(1)
    ExperimentManager(a.algo, a.env, a.seed, a.log_folder).learn()
