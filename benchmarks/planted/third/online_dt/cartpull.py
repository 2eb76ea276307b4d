"""A cart that pulls a load on a spring along a track. Environment as functions, a state is an array [n, 6]."""
import numpy as np

STATE_DIM, ACT_DIM = 6, 1
HORIZON = 1000
DT = 0.05


def init_state(n, rng):
    s = np.zeros((n, STATE_DIM), dtype=np.float32)
    s[:, 0] = rng.uniform(-1, 1, n)
    s[:, 2] = s[:, 0] + rng.uniform(-0.5, 0.5, n)
    s[:, 4] = rng.uniform(-1, 1, n)
    s[:, 5] = rng.choice([-0.2, 0.2], n)
    return s


def dynamics(s, action):
    """x, v of the cart; y, w of the load; goal position and its drift."""
    x, v, y, w, goal, drift = s.T
    force = 2.0 * np.clip(action[:, 0], -1, 1)
    pull = 3.0 * (y - x) + 0.3 * (w - v)
    out = np.empty_like(s)
    out[:, 1] = v + DT * (force + pull - 0.2 * v)
    out[:, 3] = w + DT * (-pull - 0.1 * w)
    out[:, 0] = x + DT * out[:, 1]
    out[:, 2] = y + DT * out[:, 3]
    out[:, 4] = goal + DT * drift
    out[:, 5] = np.where(np.abs(out[:, 4]) > 1.5, -drift, drift)
    reward = np.exp(-4.0 * (out[:, 2] - out[:, 4]) ** 2) - 0.02 * force ** 2
    return out, reward.astype(np.float32)


def scripted_controller(s, noise, gain, rng):
    error = s[:, 4] - s[:, 2]
    a = gain * (1.5 * error - 0.8 * s[:, 3] - 0.4 * s[:, 1]) + noise * rng.standard_normal(len(s))
    return np.clip(a, -1, 1).astype(np.float32)[:, None]


def scripted_episodes(n, rng):
    noise, gain = rng.uniform(0.1, 0.8, n), rng.uniform(0.3, 1.3, n)
    s = init_state(n, rng)
    states, actions, rewards = [], [], []
    for _ in range(HORIZON):
        a = scripted_controller(s, noise, gain, rng)
        states.append(s)
        actions.append(a)
        s, r = dynamics(s, a)
        rewards.append(r)
    return np.stack(states, 1), np.stack(actions, 1), np.stack(rewards, 1)
