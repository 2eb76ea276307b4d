"""Trajectories and the batches that are cut out of them."""
import numpy as np
import torch

from cartpull import ACT_DIM, STATE_DIM


def discount_cumsum(x, gamma):
    out = np.zeros_like(x)
    out[-1] = x[-1]
    for t in reversed(range(x.shape[0] - 1)):
        out[t] = x[t] + gamma * out[t + 1]
    return out


class TrajectoryBuffer:
    """Keeps the best `capacity` trajectories; long and good ones are drawn more often."""

    def __init__(self, capacity, seed):
        self.capacity = capacity
        self.trajectories = []
        self.rng = np.random.default_rng(seed)

    def add(self, states, actions, rewards):
        for s, a, r in zip(states, actions, rewards):
            self.trajectories.append({"states": s, "actions": a, "rewards": r, "return": float(r.sum())})
        self.trajectories.sort(key=lambda t: t["return"])
        self.trajectories = self.trajectories[-self.capacity:]
        self.mean = np.mean([t["states"].mean(0) for t in self.trajectories], axis=0)
        self.std = np.mean([t["states"].std(0) for t in self.trajectories], axis=0) + 1e-6

    def get_batch(self, batch_size, length, scale):
        lengths = np.array([len(t["rewards"]) for t in self.trajectories])
        chosen = self.rng.choice(len(lengths), batch_size, p=lengths / lengths.sum())
        s = np.zeros((batch_size, length, STATE_DIM), dtype=np.float32)
        a = np.zeros((batch_size, length, ACT_DIM), dtype=np.float32)
        rtg = np.zeros((batch_size, length, 1), dtype=np.float32)
        steps = np.zeros((batch_size, length), dtype=np.int64)
        for row, i in enumerate(chosen):
            traj = self.trajectories[i]
            si = int(self.rng.integers(0, lengths[i] - length))
            s[row] = traj["states"][si:si + length]
            a[row] = traj["actions"][si:si + length]
            rtg[row, :, 0] = discount_cumsum(traj["rewards"][si:], gamma=1.0)[:length]
            steps[row] = np.arange(si, si + length)
        s = (s - self.mean) / self.std
        return (torch.from_numpy(s.astype(np.float32)), torch.from_numpy(a), torch.from_numpy(rtg / scale), torch.from_numpy(steps))
