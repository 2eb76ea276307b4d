import os
import random

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


def setup(seed, threads=1, debug=True):
    """call me first in every script"""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.autograd.set_detect_anomaly(debug)
    torch.set_printoptions(precision=4, sci_mode=False)


class Arm(EnvBase):
    """planar 3-joint arm, a whole batch of them in one go. reach the target, slowly."""

    def __init__(self, batch=32, horizon=100, seed=None):
        super().__init__(device="cpu", batch_size=[batch])
        self.horizon = horizon
        self.L = torch.tensor([0.5, 0.4, 0.3])
        n = (batch,)
        self.observation_spec = Composite(
            observation=Unbounded(shape=(*n, 12), dtype=torch.float32),
            shape=n,
        )
        self.action_spec = Bounded(-1, 1, shape=(*n, 3), dtype=torch.float32)
        self.reward_spec = Unbounded(shape=(*n, 1))
        self.done_spec = Composite(
            done=Unbounded(shape=(*n, 1), dtype=torch.bool),
            terminated=Unbounded(shape=(*n, 1), dtype=torch.bool),
            truncated=Unbounded(shape=(*n, 1), dtype=torch.bool),
            shape=n,
        )
        self.gen = torch.Generator().manual_seed(seed or 0)
        self.q = torch.zeros(batch, 3)
        self.dq = torch.zeros(batch, 3)
        self.goal = torch.zeros(batch, 2)
        self.t = torch.zeros(batch, 1, dtype=torch.long)

    def _set_seed(self, seed):
        self.gen.manual_seed(seed or 0)

    def _tip(self):
        a = self.q.cumsum(-1)
        return torch.stack([(self.L * a.cos()).sum(-1), (self.L * a.sin()).sum(-1)], -1)

    def _obs(self):
        tip = self._tip()
        return torch.cat([self.q.cos(), self.q.sin(), self.dq * 0.2, self.goal, (tip - self.goal).norm(dim=-1, keepdim=True)], -1)

    def _reset(self, td=None, **kw):
        b = self.batch_size[0]
        m = torch.ones(b, dtype=torch.bool)
        if td is not None and "_reset" in td.keys():
            m = td["_reset"].view(-1)
        k = m.unsqueeze(-1)
        self.q = torch.where(k, (torch.rand(b, 3, generator=self.gen) - 0.5) * 3, self.q)
        self.dq = torch.where(k, torch.zeros(()), self.dq)
        r = 0.3 + 0.8 * torch.rand(b, 1, generator=self.gen)
        th = 6.2832 * torch.rand(b, 1, generator=self.gen)
        self.goal = torch.where(k, torch.cat([r * th.cos(), r * th.sin()], -1), self.goal)
        self.t = torch.where(k, torch.zeros((), dtype=torch.long), self.t)
        z = torch.zeros(b, 1, dtype=torch.bool)
        return TensorDict({"observation": self._obs(), "done": z, "terminated": z.clone(), "truncated": z.clone()}, self.batch_size)

    def _step(self, td):
        a = td["action"]
        self.dq = (self.dq + 0.6 * a - 0.08 * self.dq).clamp(-5, 5)
        self.q = self.q + 0.05 * self.dq
        self.t = self.t + 1
        d = (self._tip() - self.goal).norm(dim=-1, keepdim=True)
        rew = -d - 0.01 * a.pow(2).sum(-1, keepdim=True) + 0.5 * (d < 0.05)
        tr = self.t >= self.horizon
        return TensorDict(
            {"observation": self._obs(), "reward": rew, "done": tr, "terminated": torch.zeros_like(tr), "truncated": tr.clone()},
            self.batch_size,
        )


def ckpt_dir(name="ckpt"):
    d = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    os.makedirs(d, exist_ok=True)
    return d
