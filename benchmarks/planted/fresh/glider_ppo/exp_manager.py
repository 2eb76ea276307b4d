"""Small experiment manager in the manner of the zoo."""
import os

import gymnasium as gym
import torch as th
import yaml
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import envs  # noqa: F401

ALGOS = {"ppo": PPO, "a2c": A2C}


class ExperimentManager:
    def __init__(self, algo, env_id, seed, log_dir):
        self.algo, self.env_id, self.seed, self.log_dir = algo, env_id, seed, log_dir
        os.makedirs(log_dir, exist_ok=True)
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "hyperparams", f"{algo}.yml")) as f:
            self.hp = yaml.safe_load(f)[env_id]
        self.normalize = self.hp.pop("normalize", False)
        self.n_envs = self.hp.pop("n_envs", 1)
        self.n_timesteps = int(self.hp.pop("n_timesteps"))
        self.eval_cfg = self.hp.pop("eval")

    def _make(self, n, training=True):
        env = make_vec_env(self.env_id, n_envs=n, seed=self.seed + (0 if training else 1000))
        if self.normalize:
            env = VecNormalize(env, training=training, norm_reward=training, gamma=self.hp["gamma"])
        return env

    def setup(self):
        env = self._make(self.n_envs)
        eval_env = self._make(1, training=False)
        cb = EvalCallback(eval_env, best_model_save_path=self.log_dir, log_path=self.log_dir, verbose=0, **self.eval_cfg)
        model = ALGOS[self.algo](env=env, seed=self.seed, device="cpu", verbose=1,
                                 policy_kwargs=dict(net_arch=[64, 64], activation_fn=th.nn.Tanh), **self.hp)
        return model, cb

    def learn(self):
        model, cb = self.setup()
        try:
            model.learn(self.n_timesteps, callback=cb, log_interval=10)
        finally:
            model.save(os.path.join(self.log_dir, "final"))
