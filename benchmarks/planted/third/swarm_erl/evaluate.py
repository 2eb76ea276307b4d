"""What runs in the pool: one episode of one candidate."""
import numpy as np

from sweeper import Sweeper

_env = None


def setup(seed):
    global _env
    import os
    _env = Sweeper(seed + os.getpid() % 1000)


def forward(weights, obs):
    w1, b1, w2, b2, w3, b3 = weights
    h = np.maximum(obs @ w1 + b1, 0.0)
    h = np.maximum(h @ w2 + b2, 0.0)
    return np.tanh(h @ w3 + b3)


def episode(task):
    weights, steps, noise, seed = task
    rng = np.random.default_rng(seed)
    noises = noise * rng.standard_normal((steps, Sweeper.act_dim)).astype(np.float32)
    obs = _env.reset()
    traj = {"obs": np.empty((steps + 1, Sweeper.obs_dim), np.float32), "action": np.empty((steps, Sweeper.act_dim), np.float32),
            "reward": np.empty(steps, np.float32), "info": []}
    traj["obs"][0] = obs
    for t in range(steps):
        action = np.clip(forward(weights, obs) + noises[t], -1.0, 1.0)
        obs, reward, info = _env.step(action)
        traj["obs"][t + 1], traj["action"][t], traj["reward"][t] = obs, action, reward
        traj["info"].append(info)
    return traj
