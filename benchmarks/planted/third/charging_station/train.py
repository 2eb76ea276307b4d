# %% [markdown]
# # Charging station, PPO baseline
# Exported from `charging_station.ipynb`

# %%
import os

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv

from station import ChargingStation
from tb_callbacks import StationMetrics, WeightNorms

# %%
SEED = 5
N_ENVS = 4
TOTAL = 10_000_000
th.set_num_threads(1)
RUN = "runs/ppo_station"
os.makedirs(RUN, exist_ok=True)

# %%
env = make_vec_env(ChargingStation, n_envs=N_ENVS, seed=SEED, vec_env_cls=DummyVecEnv)

# %%
model = PPO(
    "MlpPolicy",
    env,
    n_steps=512,
    batch_size=512,
    n_epochs=5,
    gamma=0.99,
    learning_rate=3e-4,
    policy_kwargs=dict(net_arch=[64, 64], activation_fn=th.nn.Tanh, ortho_init=True),
    seed=SEED,
    device="cpu",
)
model.set_logger(configure(RUN, ["csv", "tensorboard"]))

# %%
callbacks = CallbackList(
    [
        StationMetrics(),
        WeightNorms(),
        CheckpointCallback(save_freq=200_000 // N_ENVS, save_path=RUN, name_prefix="station"),
    ]
)
model.learn(TOTAL, callback=callbacks)

# %%
model.save(os.path.join(RUN, "final"))
