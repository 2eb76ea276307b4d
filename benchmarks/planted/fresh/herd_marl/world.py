import numpy as np


class HerdWorld:
    """Dogs drive sheep towards a pen. Dict in, dict out, like the multi-agent envs we had before."""

    def __init__(self, n_dogs=12, n_sheep=10, horizon=200, seed=0):
        self.rng = np.random.default_rng(seed)
        self.agents = [f"dog_{i}" for i in range(n_dogs)]
        self.n_dogs, self.n_sheep, self.horizon = n_dogs, n_sheep, horizon
        self.pen = np.array([0.9, 0.9], np.float32)
        ang = np.arange(8) * np.pi / 4
        self.dirs = np.concatenate([np.zeros((1, 2)), np.stack([np.cos(ang), np.sin(ang)], 1)]).astype(np.float32) * 0.04
        self.n_actions = 9
        self.obs_dim = 2 + 2 + 2 * 3 + 2

    def reset(self):
        self.t = 0
        self.dogs = self.rng.random((self.n_dogs, 2), dtype=np.float32)
        self.sheep = self.rng.random((self.n_sheep, 2), dtype=np.float32)
        return self._obs()

    def _obs(self):
        d = self.sheep[None] - self.dogs[:, None]
        near = np.argpartition((d ** 2).sum(-1), 3, axis=1)[:, :3]
        rel = np.take_along_axis(d, near[..., None], 1).reshape(self.n_dogs, -1)
        centre = self.sheep.mean(0)
        o = np.concatenate([self.dogs, self.pen - self.dogs, rel, centre - self.dogs], 1)
        return dict(zip(self.agents, o.astype(np.float32)))

    def step(self, actions):
        a = np.array([actions[k] for k in self.agents])
        self.dogs = np.clip(self.dogs + self.dirs[a], 0, 1)
        before = np.linalg.norm(self.sheep - self.pen, axis=1)
        d = self.sheep[:, None] - self.dogs[None]
        w = np.exp(-(d ** 2).sum(-1) / 0.02)[..., None]
        push = (w * d).sum(1)
        noise = self.rng.normal(0, 0.004, self.sheep.shape)
        self.sheep = np.clip(self.sheep + 0.3 * push + noise, 0, 1).astype(np.float32)
        after = np.linalg.norm(self.sheep - self.pen, axis=1)
        team = float((before - after).mean()) * 20
        close = w[..., 0].max(0)
        self.t += 1
        over = self.t >= self.horizon
        rewards = {k: team + 0.02 * float(close[i]) for i, k in enumerate(self.agents)}
        dones = {k: over for k in self.agents}
        dones["__all__"] = over
        return self._obs(), rewards, dones, {}
