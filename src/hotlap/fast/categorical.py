"""C51's projection of a return distribution onto its support. Replaces a Python loop over the rows of a batch, or over atoms.

    target = project(next_probabilities, rewards, dones, gamma, support)     # [B, atoms]

Mass at r + gamma * z is shared between the two nearest atoms by distance; all rows and atoms at once, with one index_add per
side. Proven in tests/test_fast.py: equal to the loop over rows and atoms to 1e-6 (sums in another order), and each row sums to
what it summed to before.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def project(probabilities: Tensor, rewards: Tensor, dones: Tensor, gamma: float, support: Tensor) -> Tensor:
    """The target distribution [B, atoms] of a Bellman step.

    probabilities [B, atoms]: of the next state's chosen action. rewards [B], dones [B]. support [atoms]: evenly spaced returns.
    """
    batch, atoms = probabilities.shape
    low, high = support[0], support[-1]
    step = (high - low) / (atoms - 1)
    rewards, alive = rewards.reshape(batch, 1), 1.0 - dones.reshape(batch, 1).to(probabilities.dtype)
    place = ((rewards + gamma * alive * support).clamp(low, high) - low) / step
    place = place.clamp(0, atoms - 1)  # rounding may leave the support by one bit
    below = place.floor()
    above = place.ceil()
    even = (below == above).to(probabilities.dtype)  # on an atom: all of it stays there
    rows = torch.arange(batch, device=probabilities.device).reshape(batch, 1) * atoms
    projected = probabilities.new_zeros(batch * atoms)
    for index, part in ((below, above + even - place), (above, place - below)):
        projected.index_add_(0, (rows + index.long()).reshape(-1), (probabilities * part).reshape(-1))
    return projected.reshape(batch, atoms)
