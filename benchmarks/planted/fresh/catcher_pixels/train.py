import os

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

from catcher import Catcher
from networks import SmallCNN

HERE = os.path.dirname(os.path.abspath(__file__))


def build(n, seed):
    return VecTransposeImage(VecFrameStack(make_vec_env(Catcher, n_envs=n, seed=seed), n_stack=4))


def main():
    torch.set_num_threads(1)
    train_env, eval_env = build(4, 0), build(1, 500)
    callbacks = CallbackList([
        CheckpointCallback(25_000, os.path.join(HERE, "ckpt"), name_prefix="dqn"),
        EvalCallback(eval_env, n_eval_episodes=5, eval_freq=25_000, best_model_save_path=os.path.join(HERE, "best"), verbose=0),
    ])
    model = DQN(
        "CnnPolicy", train_env,
        policy_kwargs=dict(features_extractor_class=SmallCNN, features_extractor_kwargs=dict(features_dim=128), net_arch=[], optimizer_kwargs=dict(fused=True)),
        learning_rate=1e-4, buffer_size=50_000, learning_starts=1000, batch_size=64, gamma=0.97,
        train_freq=4, gradient_steps=4, target_update_interval=2000, exploration_fraction=0.05,
        exploration_final_eps=0.02, optimize_memory_usage=False, device="cpu", seed=0, verbose=1,
    )
    model.learn(2_000_000, callback=callbacks, log_interval=20)


if __name__ == "__main__":
    main()
