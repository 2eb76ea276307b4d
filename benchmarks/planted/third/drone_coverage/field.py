"""A drone surveys a field with no-fly cells; one image per step. All fields live in one tensor."""
import torch
from tensordict import TensorDict
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

MOVES = torch.tensor([[-2, 0], [2, 0], [0, -2], [0, 2], [-2, -2], [2, 2]])


class CoverageEnv(EnvBase):
    def __init__(self, fields: int = 32, size: int = 40, camera: int = 3, limit: int = 150, seed: int = 0):
        super().__init__(device="cpu", batch_size=torch.Size([fields]))
        self.n, self.size, self.camera, self.limit = fields, size, camera, limit
        self.rng = torch.Generator().manual_seed(seed)
        self.rows = torch.arange(size).view(1, size, 1)
        self.cols = torch.arange(size).view(1, 1, size)
        self.index = torch.arange(fields)
        self.seen = torch.zeros(fields, size, size, dtype=torch.bool)
        self.block = torch.zeros(fields, size, size, dtype=torch.bool)
        self.pos = torch.zeros(fields, 2, dtype=torch.long)
        self.t = torch.zeros(fields, dtype=torch.long)
        self.observation_spec = Composite(
            pixels=Unbounded(shape=(fields, 3, size, size), dtype=torch.uint8), shape=(fields,))
        self.action_spec = Categorical(len(MOVES), shape=(fields,))
        self.reward_spec = Unbounded(shape=(fields, 1))

    def _set_seed(self, seed):
        self.rng.manual_seed(seed)

    def _new_fields(self, mask):
        k = int(mask.sum())
        if not k:
            return
        block = torch.zeros(k, self.size, self.size, dtype=torch.bool)
        for _ in range(5):                                   # five rectangles per field
            r0, c0 = torch.randint(0, self.size - 8, (2, k, 1, 1), generator=self.rng)
            h, w = torch.randint(3, 8, (2, k, 1, 1), generator=self.rng)
            block |= ((self.rows >= r0) & (self.rows < r0 + h) & (self.cols >= c0) & (self.cols < c0 + w))
        self.block[mask] = block
        self.seen[mask] = False
        self.t[mask] = 0
        self.pos[mask] = torch.randint(0, self.size, (k, 2), generator=self.rng)

    def _footprint(self):
        r, c = self.pos[:, 0].view(-1, 1, 1), self.pos[:, 1].view(-1, 1, 1)
        return ((self.rows - r).abs() <= self.camera) & ((self.cols - c).abs() <= self.camera)

    def _pixels(self, footprint):
        return torch.stack([self.seen, self.block, footprint], dim=1).to(torch.uint8) * 255

    def _reset(self, tensordict=None, **kwargs):
        mask = torch.ones(self.n, dtype=torch.bool)
        if tensordict is not None and "_reset" in tensordict.keys():
            mask = tensordict["_reset"].view(self.n)
        self._new_fields(mask)
        flags = torch.zeros(self.n, 1, dtype=torch.bool)
        return TensorDict({"pixels": self._pixels(self._footprint()), "done": flags,
                           "terminated": flags.clone()}, batch_size=self.batch_size)

    def _step(self, tensordict):
        self.pos = (self.pos + MOVES[tensordict["action"]]).clamp_(0, self.size - 1)
        self.t += 1
        footprint = self._footprint()
        new = footprint & ~self.seen & ~self.block
        self.seen |= footprint
        crash = self.block[self.index, self.pos[:, 0], self.pos[:, 1]]
        reward = new.flatten(1).sum(1) / 20.0 - crash.float() - 0.02
        done = (self.t >= self.limit).unsqueeze(-1)
        return TensorDict({"pixels": self._pixels(footprint), "reward": reward.unsqueeze(-1).float(),
                           "done": done, "terminated": done.clone()}, batch_size=self.batch_size)
