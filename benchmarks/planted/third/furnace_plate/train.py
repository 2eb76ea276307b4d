"""PPO on the furnace plate.   python train.py [--workers 4]"""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")   # one process per simulator

import argparse
import logging

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from env import FurnaceEnv

HERE = os.path.dirname(os.path.abspath(__file__))


class RolloutLog(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        eps = list(self.model.ep_info_buffer)[-20:]
        if eps:
            logging.info("%7d  mean return %8.3f", self.num_timesteps, sum(e["r"] for e in eps) / len(eps))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--steps", type=int, default=1_000_000)
    p.add_argument("--seed", type=int, default=13)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")

    torch.set_num_threads(1)
    env = make_vec_env(FurnaceEnv, n_envs=args.workers, seed=args.seed, vec_env_cls=SubprocVecEnv,
                       vec_env_kwargs={"start_method": "fork"})
    eval_env = make_vec_env(FurnaceEnv, n_envs=1, seed=args.seed + 1000)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=128,
        batch_size=128,
        n_epochs=5,
        learning_rate=3e-4,
        gamma=0.97,
        seed=args.seed,
        device="cpu",
    )
    evaluation = EvalCallback(eval_env, eval_freq=40_000 // args.workers, n_eval_episodes=3, deterministic=True,
                              best_model_save_path=os.path.join(HERE, "best"), verbose=0)
    model.learn(args.steps, callback=[RolloutLog(), evaluation])
    model.save(os.path.join(HERE, "furnace"))
    env.close()


if __name__ == "__main__":
    main()
