"""PPO for tidal turbines: many turbines in one numpy batch, each sets its blade pitch against the current."""
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 19
TURBINES = 256
WINDOW = 32
EPOCHS = 2
MINIBATCH = 2048
CYCLES = 20_000
GAMMA, LAM, CLIP = 0.97, 0.9, 0.2
PITCHES = 7


class Estuary:
    """Current is a sum of three tides per site plus slow noise; rotor speed follows with inertia."""

    obs_dim = 12

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        f32 = np.float32
        self.amp = self.rng.uniform(0.2, 1.0, (n, 3)).astype(f32)
        self.freq = self.rng.uniform(0.02, 0.2, (n, 3)).astype(f32)
        self.phase = self.rng.uniform(0, 6.28, (n, 3)).astype(f32)
        self.noise = np.zeros(n, f32)
        self.spin = np.zeros(n, f32)
        self.pitch = np.full(n, 0.5, f32)
        self.t = self.rng.integers(0, 200, n)

    def current(self):
        ang = self.freq * self.t[:, None].astype(np.float32) + self.phase
        return np.sin(ang), np.cos(ang)

    def observe(self, s, c):
        out = np.empty((self.n, self.obs_dim), np.float32)
        out[:, 0:3] = self.amp * s
        out[:, 3:6] = self.amp * c
        out[:, 6:9] = self.freq * 5
        out[:, 9] = self.noise
        out[:, 10] = self.spin
        out[:, 11] = self.pitch
        return out

    def step(self, a):
        s, c = self.current()
        flow = (self.amp * s).sum(1) + self.noise
        self.pitch += 0.3 * (a.astype(np.float32) / (PITCHES - 1) - self.pitch)
        torque = np.abs(flow) * np.sin(np.pi * self.pitch) - 0.3 * self.spin
        self.spin += 0.2 * torque
        self.noise = 0.95 * self.noise + 0.05 * self.rng.standard_normal(self.n, dtype=np.float32)
        power = self.spin * (1.5 - self.spin)
        self.t += 1
        end = self.t >= 200
        k = int(end.sum())
        if k:
            self.t[end] = 0
            self.spin[end] = 0.0
            self.phase[end] = self.rng.uniform(0, 6.28, (k, 3))
        return self.observe(s, c), power, end


class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(Estuary.obs_dim, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.out = nn.Linear(128, PITCHES + 1)

    def forward(self, x):
        y = self.out(self.trunk(x))
        return F.log_softmax(y[:, :PITCHES], -1), y[:, PITCHES]


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    sea = Estuary(TURBINES, SEED)
    keeper = Keeper()
    opt = torch.optim.Adam(keeper.parameters(), lr=4e-4, eps=1e-5, fused=True)
    obs = sea.observe(*sea.current())
    m_obs = np.empty((WINDOW, TURBINES, Estuary.obs_dim), np.float32)
    m_act = np.empty((WINDOW, TURBINES), np.int64)
    m_lp, m_val, m_rew, m_end = (np.empty((WINDOW, TURBINES), np.float32) for _ in range(4))
    adv = np.empty((WINDOW, TURBINES), np.float32)
    turned, t0 = 0, time.time()

    for cycle in range(CYCLES):
        with torch.inference_mode():
            for t in range(WINDOW):
                logp, val = keeper(torch.from_numpy(obs))
                lp = logp.numpy()
                race = sea.rng.standard_exponential(lp.shape, dtype=np.float32)
                act = (np.exp(lp) / (race + 1e-10)).argmax(1)
                m_obs[t], m_act[t], m_val[t] = obs, act, val.numpy()
                m_lp[t] = lp[np.arange(TURBINES), act]
                obs, m_rew[t], m_end[t] = sea.step(act)
                turned += TURBINES
            ahead = keeper(torch.from_numpy(obs))[1].numpy()
        run = np.zeros(TURBINES, np.float32)
        for t in range(WINDOW - 1, -1, -1):
            live = 1.0 - m_end[t]
            run = m_rew[t] + GAMMA * live * ahead - m_val[t] + GAMMA * LAM * live * run
            adv[t] = run
            ahead = m_val[t]
        flat = WINDOW * TURBINES
        d_obs = torch.from_numpy(m_obs.reshape(flat, -1))
        d_act = torch.from_numpy(m_act.reshape(flat, 1))
        d_lp = torch.from_numpy(m_lp.reshape(flat))
        d_adv = torch.from_numpy(adv.reshape(flat))
        d_ret = d_adv + torch.from_numpy(m_val.reshape(flat))
        d_adv = (d_adv - d_adv.mean()) / (d_adv.std() + 1e-8)
        for _ in range(EPOCHS):
            for i in torch.randperm(flat).split(MINIBATCH):
                logp, val = keeper(d_obs[i])
                ratio = (logp.gather(1, d_act[i]).squeeze(1) - d_lp[i]).exp()
                a = d_adv[i]
                pg = -torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
                entropy = -(logp.exp() * logp).sum(-1).mean()
                loss = pg + 0.5 * F.mse_loss(val, d_ret[i]) - 0.005 * entropy
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(keeper.parameters(), 0.5)
                opt.step()
        if cycle % 50 == 0:
            print(f"cycle {cycle} steps {turned} power {m_rew.mean():.4f} {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    main()
