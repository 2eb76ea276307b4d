"""PPO for a home battery that buys and sells power against an hourly tariff."""
import time

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(seed=21, homes=8, unroll=128, epochs=3, minibatch=512, lr=5e-4, gamma=0.99, lam=0.95,
           clip=0.2, updates=100_000, week=168, ahead=6)


def make_year(seed):
    rng = np.random.default_rng(seed)
    hour = np.arange(8760)
    day = hour % 24
    season = np.cos(2 * np.pi * hour / 8760)
    table = pd.DataFrame({
        "price": 0.2 + 0.08 * np.sin((day - 9) / 24 * 4 * np.pi) + 0.03 * rng.normal(size=8760),
        "load": 0.6 + 0.3 * np.exp(-((day - 19) / 3.0) ** 2) + 0.2 * season + 0.05 * rng.random(8760),
        "sun": np.clip(np.sin((day - 6) / 12 * np.pi), 0, None) * (0.7 - 0.4 * season),
        "temp": 10 - 8 * season + rng.normal(size=8760),
    })
    table["hour_sin"] = np.sin(2 * np.pi * day / 24)
    table["hour_cos"] = np.cos(2 * np.pi * day / 24)
    return table


class BatteryHome(gym.Env):
    def __init__(self, table, ahead, week):
        self.table = table
        self.ahead = ahead
        self.week = week
        self.action_space = gym.spaces.Discrete(5)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (7 + ahead,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = int(self.np_random.integers(0, len(self.table) - self.week - self.ahead - 2))
        self.end = self.t + self.week
        self.charge = 0.5
        return self.observe(), {}

    def observe(self):
        row = self.table.iloc[self.t]
        coming = self.table["price"].iloc[self.t + 1:self.t + 1 + self.ahead]
        obs = np.empty(7 + self.ahead, np.float32)
        obs[0] = self.charge
        obs[1:7] = row.to_numpy()
        obs[4] /= 20.0
        obs[7:] = coming.to_numpy()
        return obs

    def step(self, action):
        row = self.table.iloc[self.t]
        flow = (action - 2) * 0.15
        flow = min(max(flow, -self.charge), 1.0 - self.charge)
        self.charge += flow * (0.95 if flow > 0 else 1.0)
        bought = row["load"] - row["sun"] + flow
        cost = bought * row["price"] * (1.0 if bought > 0 else 0.6)
        self.t += 1
        return self.observe(), -float(cost), False, self.t >= self.end, {}


class Policy(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.logits = nn.Linear(64, n_out)
        self.value = nn.Linear(64, 1)

    def forward(self, x):
        z = self.enc(x)
        return F.log_softmax(self.logits(z), -1), self.value(z).squeeze(-1)


def advantages(rewards, dones, values, gamma, lam):
    adv = np.zeros_like(rewards)
    carry = np.zeros(rewards.shape[1], np.float32)
    for t in range(len(rewards) - 1, -1, -1):
        keep = 1.0 - dones[t]
        carry = rewards[t] + gamma * keep * values[t + 1] - values[t] + gamma * lam * keep * carry
        adv[t] = carry
    return adv


def main():
    c = CFG
    np.random.seed(c["seed"])
    torch.manual_seed(c["seed"])
    torch.set_num_threads(1)
    table = make_year(c["seed"])
    homes = [BatteryHome(table, c["ahead"], c["week"]) for _ in range(c["homes"])]
    obs = np.stack([home.reset(seed=c["seed"] + i)[0] for i, home in enumerate(homes)])
    n_in = obs.shape[1]
    policy = Policy(n_in, 5)
    adam = torch.optim.Adam(policy.parameters(), lr=c["lr"])
    T, N = c["unroll"], c["homes"]
    O = np.zeros((T, N, n_in), np.float32)
    A = np.zeros((T, N), np.int64)
    L = np.zeros((T, N), np.float32)
    R = np.zeros((T, N), np.float32)
    D = np.zeros((T, N), np.float32)
    V = np.zeros((T + 1, N), np.float32)
    hours, start = 0, time.time()

    for update in range(c["updates"]):
        for t in range(T):
            with torch.no_grad():
                logp, v = policy(torch.from_numpy(obs))
                act = torch.multinomial(logp.exp(), 1)
                L[t] = logp.gather(1, act).squeeze(1).numpy()
            V[t] = v.numpy()
            O[t] = obs
            A[t] = act.squeeze(1).numpy()
            for i, home in enumerate(homes):
                nxt, R[t, i], _, D[t, i], _ = home.step(int(A[t, i]))
                obs[i] = home.reset()[0] if D[t, i] else nxt
            hours += N
        with torch.no_grad():
            V[T] = policy(torch.from_numpy(obs))[1].numpy()
        adv = advantages(R, D, V, c["gamma"], c["lam"])
        bo, ba = torch.from_numpy(O).view(-1, n_in), torch.from_numpy(A).view(-1, 1)
        bl, bd = torch.from_numpy(L).view(-1), torch.from_numpy(adv).view(-1)
        br = torch.from_numpy(adv + V[:-1]).view(-1)
        bd = (bd - bd.mean()) / (bd.std() + 1e-8)
        for _ in range(c["epochs"]):
            for idx in torch.randperm(T * N).split(c["minibatch"]):
                logp, v = policy(bo[idx])
                ratio = (logp.gather(1, ba[idx]).squeeze(1) - bl[idx]).exp()
                gain = torch.min(ratio * bd[idx], ratio.clamp(1 - c["clip"], 1 + c["clip"]) * bd[idx]).mean()
                bonus = -(logp.exp() * logp).sum(1).mean()
                loss = -gain + 0.5 * F.mse_loss(v, br[idx]) - 0.01 * bonus
                adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                adam.step()
        if update % 25 == 24:
            print(f"{hours} h simulated, cost per hour {-R.mean():.4f}, {time.time() - start:.0f}s", flush=True)


if __name__ == "__main__":
    main()
