# In[1]
import warnings

import numpy as np
import pandas as pd
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from data import add_indicators, make_candles
from fx_env import FxEnv

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

# In[2]
df = add_indicators(make_candles())
print(df.head())
split = int(len(df) * 0.8)
train_df, test_df = df.iloc[:split], df.iloc[split:]

# In[3]
N = 16
venv = VecMonitor(DummyVecEnv([lambda: FxEnv(train_df) for _ in range(N)]))
venv.seed(0)

# In[4]
class Backtest(BaseCallback):
    """a walk over the held-out part now and then"""

    def __init__(self, df, every=400_000):
        super().__init__()
        self.env, self.every, self.next = FxEnv(df), every, every
        self.rows = []

    def _on_step(self):
        if self.num_timesteps >= self.next:
            self.next += self.every
            obs, _ = self.env.reset(seed=1)
            done = False
            while not done:
                a, _ = self.model.predict(obs, deterministic=True)
                obs, _, _, done, _ = self.env.step(a)
            self.rows.append({"steps": self.num_timesteps, "equity": self.env.equity, "trades": len(self.env.trades)})
            print(pd.DataFrame(self.rows).tail(3))
        return True

# In[5]
model = PPO(
    "MlpPolicy", venv, n_steps=128, batch_size=512, n_epochs=6, learning_rate=3e-4,
    gamma=0.97, ent_coef=0.01, clip_range=0.2,
    policy_kwargs=dict(net_arch=dict(pi=[128, 128], vf=[128, 128])),
    device="cpu", verbose=1, seed=0,
)
model.learn(20_000_000, callback=Backtest(test_df), log_interval=5)

# In[6]
model.save("fx_ppo")
