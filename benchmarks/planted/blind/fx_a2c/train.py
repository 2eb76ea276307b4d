# fx a2c -- 3rd attempt. small net, short windows.
import argparse, os, json
import numpy as np
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from trading_env import FxEnv, add_features, fake_history

torch.set_num_threads(1)
here = os.path.dirname(os.path.abspath(__file__))

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int, default=8)
parser.add_argument("--window", type=int, default=16)
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--nsteps", type=int, default=16)
parser.add_argument("--total", type=int, default=20_000_000)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


class EquityCb(BaseCallback):
    def __init__(self, path, every=100_000):
        super().__init__()
        self.path = path
        self.every = every
        self.eq, self.tr = [], []
        self.best = -1e9
        self.last = 0

    def _on_step(self) -> bool:
        for inf in self.locals["infos"]:
            if "equity" in inf:
                self.eq.append(inf["equity"])
                self.tr.append(inf["trades"])
        return True

    def _on_rollout_end(self):
        if self.num_timesteps - self.last < self.every or not self.eq:
            return
        self.last = self.num_timesteps
        m = float(np.mean(self.eq))
        print(f"[{self.num_timesteps}] equity {m:.4f}  trades/ep {np.mean(self.tr):.1f}  n={len(self.eq)}")
        if m > self.best:
            self.best = m
            self.model.save(os.path.join(self.path, "best"))
        self.eq, self.tr = [], []


def env_fn(df, seed):
    def f():
        e = Monitor(FxEnv(df, window=args.window))
        e.reset(seed=seed)
        return e
    return f


def backtest(model, df):
    e = FxEnv(df, window=args.window, ep_len=2000, train=False)
    o, _ = e.reset()
    while True:
        a, _ = model.predict(o, deterministic=True)
        o, r, d, t, info = e.step(a)
        if d or t:
            return info


if __name__ == "__main__":
    outdir = os.path.join(here, "models")
    os.makedirs(outdir, exist_ok=True)
    df = add_features(fake_history(seed=args.seed))
    cut = int(len(df) * 0.8)
    train_df, test_df = df.iloc[:cut], df.iloc[cut:]
    print(len(train_df), "train rows", len(test_df), "test rows")
    venv = DummyVecEnv([env_fn(train_df, args.seed * 1000 + i) for i in range(args.envs)])
    model = A2C("MlpPolicy", venv, n_steps=args.nsteps, learning_rate=args.lr, gamma=0.95, ent_coef=0.003,
                gae_lambda=0.9, normalize_advantage=True, device="cpu", seed=args.seed,
                policy_kwargs=dict(net_arch=[128, 64], activation_fn=torch.nn.ELU), verbose=0)
    model.learn(args.total, callback=EquityCb(outdir))
    model.save(os.path.join(outdir, "last"))
    res = backtest(model, test_df)
    print(res)
    with open(os.path.join(outdir, "bt.json"), "w") as f:
        json.dump({k: float(v) for k, v in res.items()}, f)
