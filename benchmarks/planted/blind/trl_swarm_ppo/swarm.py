import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Swarm(EnvBase):
    """B worlds x K drones (centralised control); cover a drifting set of M hot spots."""

    def __init__(self, batch=128, k=6, m=10, horizon=200, seed=0):
        super().__init__(device="cpu", batch_size=[batch])
        self.k, self.m, self.horizon = k, m, horizon
        b = (batch,)
        self.dim = 4 * k + 3 * m
        self.observation_spec = Composite(observation=Unbounded(shape=(*b, self.dim), dtype=torch.float32), shape=b)
        self.action_spec = Bounded(-1, 1, shape=(*b, 2 * k), dtype=torch.float32)
        self.reward_spec = Unbounded(shape=(*b, 1))
        one = lambda: Unbounded(shape=(*b, 1), dtype=torch.bool)
        self.done_spec = Composite(done=one(), terminated=one(), truncated=one(), shape=b)
        self.g = torch.Generator().manual_seed(seed)

    def _set_seed(self, seed):
        self.g.manual_seed(seed or 0)

    def _rand(self, *s):
        return torch.rand(*s, generator=self.g) * 2 - 1

    def _obs(self):
        b = self.batch_size[0]
        d = torch.cdist(self.spot, self.pos).amin(-1)
        return torch.cat([self.pos.reshape(b, -1), self.vel.reshape(b, -1), self.spot.reshape(b, -1), d], -1)

    def _reset(self, td=None, **kw):
        b = self.batch_size[0]
        pos, vel = self._rand(b, self.k, 2), torch.zeros(b, self.k, 2)
        spot, drift = self._rand(b, self.m, 2), 0.01 * self._rand(b, self.m, 2)
        t = torch.zeros(b, 1, dtype=torch.long)
        if td is not None and "_reset" in td.keys():
            r = td["_reset"].view(b, 1)
            r3 = r.unsqueeze(-1)
            pos, vel = torch.where(r3, pos, self.pos), torch.where(r3, vel, self.vel)
            spot, drift = torch.where(r3, spot, self.spot), torch.where(r3, drift, self.drift)
            t = torch.where(r, t, self.t)
        self.pos, self.vel, self.spot, self.drift, self.t = pos, vel, spot, drift, t
        z = torch.zeros(b, 1, dtype=torch.bool)
        return TensorDict({"observation": self._obs(), "done": z, "terminated": z.clone(), "truncated": z.clone()}, self.batch_size)

    def _step(self, td):
        b = self.batch_size[0]
        a = td["action"].view(b, self.k, 2)
        self.vel = 0.9 * self.vel + 0.02 * a
        self.pos = (self.pos + self.vel).clamp(-1.2, 1.2)
        self.spot = (self.spot + self.drift).clamp(-1, 1)
        self.t = self.t + 1
        d = torch.cdist(self.spot, self.pos).amin(-1)
        rew = torch.exp(-4 * d).mean(-1, keepdim=True) - 0.005 * a.pow(2).mean((1, 2)).unsqueeze(-1)
        tr = self.t >= self.horizon
        return TensorDict(
            {"observation": self._obs(), "reward": rew, "done": tr, "terminated": torch.zeros_like(tr), "truncated": tr.clone()},
            self.batch_size,
        )
