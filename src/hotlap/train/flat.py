"""A network's parameters and gradients as one vector each, and Adam on that vector.

An optimizer that walks over parameters takes several times longer than the arithmetic on small networks; clipping and Adam of
one vector are two operations.
"""

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
    """Adam on one vector, with the gradient clipped to a norm, in one fused torch operation.

    Step size and count are tensors and nothing asks the device for a number, so that a CUDA graph can hold it all. Where `skip`
    is 1 nothing happens.
    """

    def __init__(self, flat: nn.Parameter, learning_rate: float, eps: float, clip: float = 0.0) -> None:
        self.flat, self.eps, self.clip = flat.data, eps, clip
        self.mean, self.square = torch.zeros_like(flat.data), torch.zeros_like(flat.data)
        self.steps, self.skip = torch.zeros((), device=flat.device), torch.zeros((), device=flat.device)
        self.rate = torch.tensor(learning_rate, device=flat.device)

    def step(self, gradient: Tensor) -> None:
        scale = (torch.linalg.vector_norm(gradient) + 1e-6).div_(self.clip).clamp_(min=1.0) if self.clip else None
        self.steps += 1 - self.skip
        torch._fused_adam_(
            [self.flat],
            [gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            lr=self.rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
            found_inf=self.skip,
        )
