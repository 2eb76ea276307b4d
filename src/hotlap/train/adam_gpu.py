"""Adam on one vector, on a GPU (adam.cu): torch's fused operation keeps one of its processors busy with as much, for ten times
as long."""

from functools import cache
from math import log
from pathlib import Path

import torch
from torch import Tensor

from hotlap.core import nvrtc
from hotlap.train.flat import BETA1, Adam

SOURCE = Path(__file__).with_name("adam.cu")


@cache
def program() -> nvrtc.Program:
    return nvrtc.Program(SOURCE.read_text(), str(SOURCE.parent))


class GpuAdam(Adam):
    """The same."""

    def step(self, gradient: Tensor) -> None:
        torch.linalg.vector_norm(gradient, out=self.norm)
        given = (self.flat, gradient, self.mean, self.square, self.steps, self.skip, self.rate, self.norm)
        decays = (log(BETA1), log(self.beta2), 1 - BETA1, 1 - self.beta2)
        program().run("adam", self.flat.numel(), *given, self.flat.numel(), float(self.clip), float(self.eps), *decays)
        program().run("count_step", 1, self.steps, self.skip)


def adam_of(flat: Tensor) -> type[Adam]:
    """What steps this vector: in CUDA where there is a compiler, else in torch."""
    return GpuAdam if flat.is_cuda and not nvrtc.missing() else Adam
