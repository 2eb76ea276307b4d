"""PPO for a small crew of fire drones, each keeping one square plot of moorland cool."""
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 11
SIDE = 14
PLOTS = 8
HORIZON = 64
ROUNDS = 6000
GAMMA, LAM = 0.98, 0.95
CLIP, ENT, LR = 0.2, 0.01, 3e-4
EPOCHS, CHUNK = 3, 256
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])


class Moor:
    """A batch of plots. Heat spreads to the four neighbours; the drone sprays where it hovers."""

    def __init__(self, plots, side, seed):
        self.plots, self.side = plots, side
        self.rng = np.random.default_rng(seed)
        self.heat = np.zeros((plots, side, side), dtype=np.float32)
        self.fuel = np.zeros((plots, side, side), dtype=np.float32)
        self.pos = np.zeros((plots, 2), dtype=np.int64)
        self.age = np.zeros(plots, dtype=np.int64)
        self.obs_size = side * side + 2

    def _ignite(self, mask):
        k = int(mask.sum())
        if k:
            self.heat[mask] = (self.rng.random((k, self.side, self.side)) < 0.06).astype(np.float32)
            self.fuel[mask] = self.rng.uniform(0.0, 0.04, (k, self.side, self.side)).astype(np.float32)
            self.pos[mask] = self.rng.integers(0, self.side, (k, 2))
            self.age[mask] = 0

    def reset(self):
        self._ignite(np.ones(self.plots, dtype=bool))
        return self.observe()

    def observe(self):
        flat = self.heat.reshape(self.plots, -1)
        return np.concatenate([flat, self.pos / self.side], axis=1).astype(np.float32)

    def spread(self):
        fresh = np.zeros_like(self.heat)
        for p in range(self.plots):
            for y in range(self.side):
                for x in range(self.side):
                    here = self.heat[p, y, x]
                    flow = 0.0
                    if y > 0:
                        flow += self.heat[p, y - 1, x] - here
                    if y < self.side - 1:
                        flow += self.heat[p, y + 1, x] - here
                    if x > 0:
                        flow += self.heat[p, y, x - 1] - here
                    if x < self.side - 1:
                        flow += self.heat[p, y, x + 1] - here
                    value = here + 0.12 * flow + self.fuel[p, y, x] * here
                    fresh[p, y, x] = min(max(value, 0.0), 1.0)
        self.heat = fresh

    def step(self, action):
        self.pos = np.clip(self.pos + MOVES[action], 0, self.side - 1)
        idx = np.arange(self.plots)
        cooled = self.heat[idx, self.pos[:, 0], self.pos[:, 1]].copy()
        self.heat[idx, self.pos[:, 0], self.pos[:, 1]] = 0.0
        self.spread()
        self.age += 1
        reward = cooled - 0.5 * self.heat.mean(axis=(1, 2))
        done = (self.age >= 120) | (self.heat.max(axis=(1, 2)) < 0.02)
        self._ignite(done)
        return self.observe(), reward.astype(np.float32), done


class Crew(nn.Module):
    def __init__(self, size, moves):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi = nn.Linear(64, moves)
        self.v = nn.Linear(64, 1)

    def forward(self, x):
        h = self.body(x)
        return F.log_softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


def advantages(rew, val, done, last):
    out = np.zeros_like(rew)
    run = np.zeros(rew.shape[1], dtype=np.float32)
    nxt = last
    for t in range(rew.shape[0] - 1, -1, -1):
        alive = 1.0 - done[t]
        delta = rew[t] + GAMMA * nxt * alive - val[t]
        run = delta + GAMMA * LAM * alive * run
        out[t] = run
        nxt = val[t]
    return out


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    moor = Moor(PLOTS, SIDE, SEED)
    crew = Crew(moor.obs_size, len(MOVES))
    opt = torch.optim.Adam(crew.parameters(), lr=LR, eps=1e-5)
    B_obs = np.zeros((HORIZON, PLOTS, moor.obs_size), dtype=np.float32)
    B_act = np.zeros((HORIZON, PLOTS), dtype=np.int64)
    B_lp, B_val, B_rew, B_done = (np.zeros((HORIZON, PLOTS), dtype=np.float32) for _ in range(4))
    obs = moor.reset()
    ticks, began = 0, time.time()

    for rnd in range(ROUNDS):
        with torch.no_grad():
            for t in range(HORIZON):
                logp, val = crew(torch.from_numpy(obs))
                act = torch.multinomial(logp.exp(), 1)
                B_obs[t], B_val[t] = obs, val.numpy()
                B_lp[t] = logp.gather(1, act).squeeze(1).numpy()
                B_act[t] = act.squeeze(1).numpy()
                obs, B_rew[t], B_done[t] = moor.step(B_act[t])
                ticks += PLOTS
            last = crew(torch.from_numpy(obs))[1].numpy()
        adv = advantages(B_rew, B_val, B_done, last)
        d_obs = torch.from_numpy(B_obs.reshape(-1, moor.obs_size))
        d_act = torch.from_numpy(B_act.reshape(-1, 1))
        d_lp = torch.from_numpy(B_lp.reshape(-1))
        d_adv = torch.from_numpy(adv.reshape(-1))
        d_ret = d_adv + torch.from_numpy(B_val.reshape(-1))
        d_adv = (d_adv - d_adv.mean()) / (d_adv.std() + 1e-8)
        for _ in range(EPOCHS):
            for sel in torch.randperm(HORIZON * PLOTS).split(CHUNK):
                logp, val = crew(d_obs[sel])
                ratio = (logp.gather(1, d_act[sel]).squeeze(1) - d_lp[sel]).exp()
                a = d_adv[sel]
                pg = -torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
                ent = -(logp.exp() * logp).sum(-1).mean()
                loss = pg + 0.5 * F.mse_loss(val, d_ret[sel]) - ENT * ent
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(crew.parameters(), 0.5)
                opt.step()
        if rnd % 100 == 0:
            print(f"round {rnd} ticks {ticks} reward {B_rew.mean():.4f} t {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
