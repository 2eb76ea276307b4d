"""Planar three-joint arm that has to reach and follow a point. The environment is two functions on batches of states."""
import numpy as np

JOINTS = 3
OBS, ACT = 3 * JOINTS + 4, JOINTS


def reset(n, rng):
    q = rng.uniform(-np.pi, np.pi, (n, JOINTS)).astype(np.float32)
    goal = rng.uniform(-1.5, 1.5, (n, 2)).astype(np.float32)
    return {"q": q, "v": np.zeros_like(q), "goal": goal}


def tip(q):
    a = np.cumsum(q, axis=1)
    return np.stack([np.cos(a).sum(1), np.sin(a).sum(1)], axis=1)


def observe(s):
    return np.concatenate([np.cos(s["q"]), np.sin(s["q"]), s["v"], s["goal"], tip(s["q"]) - s["goal"]], axis=1).astype(np.float32)


def step(s, action):
    v = 0.85 * s["v"] + 0.15 * np.clip(action, -1.0, 1.0)
    q = s["q"] + 0.3 * v
    new = {"q": q, "v": v, "goal": s["goal"]}
    gap = tip(q) - s["goal"]
    reward = -np.sqrt((gap * gap).sum(1)) - 0.02 * (action * action).sum(1)
    return new, observe(new), reward.astype(np.float32)


def jacobian_controller(s, noise, rng):
    a = np.cumsum(s["q"], axis=1)
    gap = s["goal"] - tip(s["q"])
    jx = -np.cumsum(np.sin(a)[:, ::-1], axis=1)[:, ::-1]
    jy = np.cumsum(np.cos(a)[:, ::-1], axis=1)[:, ::-1]
    u = 1.5 * (jx * gap[:, :1] + jy * gap[:, 1:]) - 0.5 * s["v"] + noise * rng.standard_normal(s["q"].shape)
    return np.clip(u, -1.0, 1.0).astype(np.float32)
