"""Analysis of a network's weights while it is trained: the singular values of each layer."""

import torch
from torch import Tensor, nn


@torch.no_grad()
def singular_values(net: nn.Module) -> dict[str, Tensor]:
    """Of each parameter that is a matrix, largest first; a convolution's is one row for each of its outputs."""
    matrices = {name: weight.flatten(1) for name, weight in net.named_parameters() if weight.ndim > 1}
    return {name: torch.linalg.svdvals(matrix.float()) for name, matrix in matrices.items()}


def analyse(net: nn.Module) -> dict[str, float]:
    """For logs, of each layer: the largest singular value, the smallest, and the stable rank.

    That is the sum of their squares over the largest square: how many directions the layer really uses, from 1 to its rank.
    """
    values = singular_values(net)
    ranks = [s.square().sum() / s[0].square().clamp(min=1e-30) for s in values.values()]
    numbers = torch.stack([torch.stack((s[0], s[-1], rank)) for s, rank in zip(values.values(), ranks, strict=True)])
    names = ("largest", "smallest", "stable_rank")
    return {
        f"weights/{layer.removesuffix('.weight')}/{name}": number
        for layer, row in zip(values, numbers.tolist(), strict=True)
        for name, number in zip(names, row, strict=True)
    }
