"""Self-play in turn-based games: past policies as opponents. How a policy is rated is in `rating.py`.

In most games every seat is played, and learned from, by the present policy. In some (`opponent_share`) one seat is, another
in each game, and the others are played by a past policy, drawn anew for each iteration.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class Opponents:
    """Past policies. `output` computes a network like the learner's for acting, of which `flat` are all parameters."""

    def __init__(
        self, output: Callable[[Tensor], Tensor], flat: nn.Parameter, size: int, share: float, num_envs: int, seats: int
    ) -> None:
        self.output, self.flat, self.size = output, flat, size
        self.past: list[Tensor] = []
        self.iterations: list[int] = []  # after which each was kept
        self._against = np.arange(num_envs) >= round((1 - share) * num_envs)  # games against a past policy
        self._seat = np.arange(num_envs) % seats  # the learner's seat in those

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

    def learner(self, seat: NDArray[np.int8], rows: slice = slice(None)) -> NDArray[np.bool_]:
        """Which decisions [..., rows] are the present policy's."""
        learns: NDArray[np.bool_] = ~self._against[rows] | (seat == self._seat[rows])
        return learns

    def scores(self, returns: NDArray[Any], ended: NDArray[np.bool_], rows: slice) -> list[float]:
        """Of games that ended, against a past policy: 1 where the learner won, 0 where it lost."""
        seats = self._seat[rows]
        return [score(returns[i], int(seats[i])) for i in np.flatnonzero(ended & self._against[rows])]


def least_needed(iterations: Sequence[int]) -> int:
    """Which policy goes; never the newest. Iterations that few powers of two divide go first, of those the oldest: what stays
    is evenly spaced, at most twice as wide in the older part as in the newer one."""
    older = iterations[:-1]
    return min(range(len(older)), key=lambda i: older[i] & -older[i] or math.inf)  # 0: all powers of two divide it


def score(returns: NDArray[Any], seat: int) -> float:
    """1 for a win, 0 for a loss, by how many of the other seats were beaten; a tie is half a win."""
    others = np.delete(returns, seat)
    return float(np.mean(np.where(returns[seat] > others, 1.0, np.where(returns[seat] == others, 0.5, 0.0))))
