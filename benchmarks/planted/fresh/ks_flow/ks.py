import math

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class KuramotoSivashinsky(EnvBase):
    """Chaotic flow on a ring, ETDRK2 in Fourier space; eight actuators damp it. All rings are one tensor."""

    def __init__(self, rings=48, n=128, length=22.0, substeps=10, horizon=100):
        super().__init__(batch_size=[rings])
        self.n, self.substeps, self.horizon, self.dt = n, substeps, horizon, 0.025
        k = 2 * math.pi / length * torch.arange(n // 2 + 1, dtype=torch.float64)
        lin = k ** 2 - k ** 4
        self.E = torch.exp(self.dt * lin)
        small = lin.abs() < 1e-6
        safe = torch.where(small, torch.ones_like(lin), lin)
        self.c1 = torch.where(small, torch.full_like(lin, self.dt), (self.E - 1) / safe)
        self.c2 = torch.where(small, torch.full_like(lin, self.dt / 2), (self.E - 1 - self.dt * lin) / (self.dt * safe ** 2))
        self.E, self.c1, self.c2, k = self.E.float(), self.c1.float(), self.c2.float(), k.float()
        self.g = -0.5j * k * (torch.arange(n // 2 + 1) < n // 3)
        x = torch.arange(n) * length / n
        centres = torch.arange(8) * length / 8
        d = torch.remainder(x[None] - centres[:, None] + length / 2, length) - length / 2
        self.shapes = torch.exp(-0.5 * (d / 0.8) ** 2)
        self.observation_spec = Composite(observation=Unbounded((rings, n // 2)), shape=(rings,))
        self.action_spec = Bounded(-1, 1, (rings, 8))
        self.reward_spec = Unbounded((rings, 1))
        self.done_spec = Composite(
            done=Binary(1, shape=(rings, 1), dtype=torch.bool), terminated=Binary(1, shape=(rings, 1), dtype=torch.bool), shape=(rings,)
        )
        self.u = torch.zeros(rings, n)
        self.t = torch.zeros(rings, dtype=torch.long)

    def _nonlinear(self, uh):
        return self.g * torch.fft.rfft(torch.fft.irfft(uh, n=self.n) ** 2)

    @torch.no_grad()
    def _advance(self, u, force):
        uh, fh = torch.fft.rfft(u), torch.fft.rfft(force)
        for _ in range(self.substeps):
            n0 = self._nonlinear(uh) + fh
            a = self.E * uh + self.c1 * n0
            uh = a + self.c2 * (self._nonlinear(a) + fh - n0)
        return torch.fft.irfft(uh, n=self.n)

    def _flags(self):
        return torch.zeros(self.batch_size[0], 1, dtype=torch.bool)

    def _reset(self, td):
        mask = td["_reset"].view(-1) if td is not None and "_reset" in td.keys() else torch.ones(self.batch_size[0], dtype=torch.bool)
        k = int(mask.sum())
        noise = torch.fft.rfft(torch.randn(k, self.n))
        noise[:, 6:] = 0
        self.u[mask] = torch.fft.irfft(noise, n=self.n) * 3
        self.t[mask] = torch.randint(0, self.horizon // 2, (k,))
        return TensorDict({"observation": self.u[:, ::2].clone(), "done": self._flags(), "terminated": self._flags()}, self.batch_size)

    def _step(self, td):
        act = td["action"].clamp(-1, 1)
        self.u = self._advance(self.u, 0.5 * act @ self.shapes)
        self.t = self.t + 1
        cost = self.u.pow(2).mean(-1, keepdim=True) + 0.05 * act.pow(2).mean(-1, keepdim=True)
        done = (self.t >= self.horizon).unsqueeze(-1)
        return TensorDict(
            {"observation": self.u[:, ::2].clone(), "reward": -cost, "done": done, "terminated": self._flags()}, self.batch_size
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)
