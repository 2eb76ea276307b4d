"""Self-play in turn-based games: past policies as opponents. How a policy is rated is in `rating.py`.

In most games every seat is played, and learned from, by the present policy. In some (`opponent_share`) one seat is, another
in each game, and the others are played by a past policy, drawn anew for each iteration.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn


class Opponents:
    """Past policies. `output` computes a network like the learner's for acting, of which `flat` are all parameters."""

    def __init__(
        self, output: Callable[[Tensor], Tensor], flat: nn.Parameter, size: int, share: float, num_envs: int, seats: int
    ) -> None:
        self.output, self.flat, self.size = output, flat, size
        self.past: list[Tensor] = []
        self.iterations: list[int] = []  # after which each was kept
        self.first = round((1 - share) * num_envs)  # of the games against a past policy
        rows = torch.arange(num_envs)
        self._against, self._seat = rows >= self.first, (rows % seats).to(torch.int8)  # the learner's seat in those

    def add(self, flat: Tensor, iteration: int) -> None:
        """Keep the present policy. If there are too many, one goes so that the others are spread over the whole training."""
        self.past.append(flat.detach().clone())
        self.iterations.append(iteration)
        if len(self.past) > self.size:
            least = least_needed(self.iterations)
            del self.past[least], self.iterations[least]

    def state(self) -> dict[str, Tensor]:
        return {"past": torch.stack(self.past), "iterations": torch.tensor(self.iterations)}

    def load(self, state: dict[str, Tensor]) -> None:
        self.past, self.iterations = list(state["past"]), state["iterations"].tolist()

    def draw(self, seed: int, iteration: int) -> None:
        """Draw the past policy that plays in this iteration."""
        chosen = np.random.default_rng([seed, iteration]).integers(len(self.past))
        self.flat.data.copy_(self.past[chosen])

    def to(self, device: torch.device) -> "Opponents":
        """For games that are played there."""
        self._against, self._seat = self._against.to(device), self._seat.to(device)
        return self

    def learner(self, seat: Tensor, rows: slice = slice(None)) -> Tensor:
        """Which decisions [..., rows] are the present policy's."""
        return ~self._against[rows] | (seat == self._seat[rows])

    def scores(self, returns: Tensor, ended: Tensor, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Of games [..., rows] that ended, with returns [..., rows, seats], against a past policy: the sum of the learner's
        scores, 1 for a win and 0 for a loss, and how many games that were."""
        won = score(returns, self._seat[rows].long().expand(returns.shape[:-1]))
        counted = ended & self._against[rows]
        return torch.where(counted, won, 0).sum(), counted.sum()


def least_needed(iterations: Sequence[int]) -> int:
    """Which policy goes; never the newest. Iterations that few powers of two divide go first, of those the oldest: what stays
    is evenly spaced, at most twice as wide in the older part as in the newer one."""
    older = iterations[:-1]
    return min(range(len(older)), key=lambda i: older[i] & -older[i] or math.inf)  # 0: all powers of two divide it


def score(returns: Tensor, seat: Tensor) -> Tensor:
    """Of games with returns [..., seats], for a seat of each: 1 for a win, 0 for a loss, by how many of the other seats were
    beaten; a tie is half a win."""
    own = returns.gather(-1, seat[..., None])
    points = (own > returns).float() + 0.5 * (own == returns).float()
    return (points.sum(-1) - 0.5) / (returns.shape[-1] - 1)  # its tie with itself does not count
