import os

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

import greenhouse  # noqa: F401  registers the env
from greenhouse.hyperparams import read_hyperparams


class SaveNormalizer(BaseCallback):
    """Keep the VecNormalize statistics beside the model checkpoints."""

    def __init__(self, every, path):
        super().__init__()
        self.every = every
        self.path = path

    def _on_step(self):
        if self.n_calls % self.every == 0:
            env = self.model.get_vec_normalize_env()
            if env is not None:
                env.save(os.path.join(self.path, "vecnormalize.pkl"))
        return True


class ExperimentManager:
    def __init__(self, env_id, conf, log_dir, seed, vec_env_type="subproc"):
        self.env_id = env_id
        self.log_dir = log_dir
        self.seed = seed
        self.run, self.hp = read_hyperparams(conf, env_id)
        self.vec_env_class = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}[vec_env_type]
        self.vec_env_kwargs = {} if vec_env_type == "dummy" else {"start_method": "fork"}

    def create_envs(self, n_envs):
        env = make_vec_env(
            self.env_id,
            n_envs=n_envs,
            seed=self.seed,
            env_kwargs=self.run.get("env_kwargs"),
            vec_env_cls=self.vec_env_class,
            vec_env_kwargs=self.vec_env_kwargs,
        )
        if self.run.get("normalize"):
            env = VecNormalize(env, gamma=self.hp["gamma"])
        return env

    def learn(self):
        set_random_seed(self.seed)
        os.makedirs(self.log_dir, exist_ok=True)
        env = self.create_envs(self.run["n_envs"])
        model = PPO(env=env, seed=self.seed, verbose=1, device="cpu", **self.hp)
        every = max(500_000 // self.run["n_envs"], 1)
        callbacks = [
            CheckpointCallback(save_freq=every, save_path=self.log_dir, name_prefix="ppo"),
            SaveNormalizer(every, self.log_dir),
        ]
        try:
            model.learn(self.run["n_timesteps"], callback=callbacks, log_interval=5)
        except KeyboardInterrupt:
            pass
        finally:
            model.save(os.path.join(self.log_dir, "final"))
            env.close()
