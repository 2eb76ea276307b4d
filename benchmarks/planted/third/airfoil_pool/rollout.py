"""Worker side: whole episodes with the weights of the moment. Only numpy here, torch stays in the learner."""
import numpy as np

from airfoil import AirfoilDesign

_design = None


def init_worker():
    global _design
    _design = AirfoilDesign()


def play(task):
    (w1, b1, w2, b2, w3, b3, log_std), seed = task
    rng = np.random.default_rng(seed)
    n = AirfoilDesign.episode_length
    obs_all = np.empty((n, AirfoilDesign.obs_dim), np.float32)
    act_all = np.empty((n, AirfoilDesign.act_dim), np.float32)
    rew_all = np.empty(n, np.float32)
    noise = (np.exp(log_std) * rng.standard_normal((n, AirfoilDesign.act_dim))).astype(np.float32)
    obs = _design.reset(rng)
    for t in range(n):
        h = np.tanh(obs @ w1 + b1)
        h = np.tanh(h @ w2 + b2)
        action = h @ w3 + b3 + noise[t]
        obs_all[t], act_all[t] = obs, action
        obs, rew_all[t], _ = _design.step(np.clip(action, -1.0, 1.0))
    return obs_all, act_all, rew_all
