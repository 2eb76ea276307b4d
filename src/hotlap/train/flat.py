"""A network's parameters and gradients as one vector each, and Adam on that vector.

An optimizer that walks over parameters takes several times longer than the arithmetic on small networks; clipping and Adam of
one vector are two operations.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn


def flatten(net: nn.Module) -> nn.Parameter:
    """Make the network's parameters and gradients views of one vector each, and return that vector."""
    parameters = list(net.parameters())
    flat = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
    flat.grad = torch.zeros_like(flat)
    for p, data, gradient in zip(parameters, views(net, flat.data), views(net, flat.grad), strict=True):
        p.data, p.grad = data, gradient
    return flat


def views(net: nn.Module, vector: Tensor) -> list[Tensor]:
    """Of a vector: a part for each parameter, in its shape."""
    parameters = list(net.parameters())
    parts = torch.split(vector, [p.numel() for p in parameters])
    return [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]


def gradient_views(net: nn.Module, vector: Tensor) -> dict[Tensor, Tensor]:
    return dict(zip(net.parameters(), views(net, vector), strict=True))


class Adam:
    """Adam on one vector, with the gradient clipped to a norm, in one fused torch operation where there is one.

    Step size and count are tensors and nothing asks the device for a number, so that a CUDA graph can hold it all. Where `skip`
    is 1 nothing happens.
    """

    def __init__(self, flat: nn.Parameter, learning_rate: float, eps: float, clip: float = 0.0, beta2: float = 0.999) -> None:
        self.flat, self.eps, self.clip, self.beta2 = flat.data, eps, clip, beta2
        self.mean, self.square = torch.zeros_like(flat.data), torch.zeros_like(flat.data)
        self.steps, self.skip = torch.zeros((), device=flat.device), torch.zeros((), device=flat.device)
        self.rate = torch.tensor(learning_rate, device=flat.device)
        self.norm = torch.zeros((), device=flat.device)  # of the last gradient, before it was clipped

    def step(self, gradient: Tensor) -> None:
        torch.linalg.vector_norm(gradient, out=self.norm)  # in the same place, which CUDA graphs know
        scale = (self.norm + 1e-6).div_(self.clip).clamp_(min=1.0) if self.clip else None
        self.steps += 1 - self.skip
        adam_step()(self, gradient, scale)

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, kept in self.state().items():
            kept.copy_(state[name])


BETA1 = 0.9


def fused_step(adam: Adam, gradient: Tensor, scale: Tensor | None) -> None:
    """One operation, which torch keeps for its own optimizers; the gradient is divided by `scale`."""
    torch._fused_adam_(
        [adam.flat],
        [gradient],
        [adam.mean],
        [adam.square],
        [],
        [adam.steps],
        lr=adam.rate,
        beta1=BETA1,
        beta2=adam.beta2,
        weight_decay=0.0,
        eps=adam.eps,
        amsgrad=False,
        maximize=False,
        grad_scale=scale,
        found_inf=adam.skip,
    )


def plain_step(adam: Adam, gradient: Tensor, scale: Tensor | None) -> None:
    """The specification of `fused_step`, in operations that every torch has."""
    gradient = gradient if scale is None else gradient / scale
    steps = adam.steps.clamp(min=1)
    mean, square = adam.mean.lerp(gradient, 1 - BETA1), adam.square.lerp(gradient**2, 1 - adam.beta2)
    deviation = (square / (1 - adam.beta2**steps)).sqrt_().add_(adam.eps)
    moved = adam.flat - adam.rate * (mean / (1 - BETA1**steps)) / deviation
    for kept, new in ((adam.mean, mean), (adam.square, square), (adam.flat, moved)):
        kept.copy_(torch.where(adam.skip > 0, kept, new))


AdamStep = Callable[[Adam, Tensor, Tensor | None], None]


def choose_step() -> AdamStep:
    """The fused operation, if this torch has it and it does what it should."""
    results = []
    for step in (plain_step, fused_step):
        trial = Adam(nn.Parameter(torch.ones(2)), 0.1, eps=1e-5)
        trial.steps += 1
        try:
            step(trial, torch.tensor([1.0, -2.0]), torch.tensor(2.0))
        except (AttributeError, TypeError, RuntimeError):
            return plain_step
        results.append(torch.stack([trial.flat, trial.mean, trial.square]))
    return fused_step if torch.allclose(results[0], results[1]) else plain_step


@cache
def adam_step() -> AdamStep:
    """What `choose_step` chose, when it is first needed."""
    return choose_step()
