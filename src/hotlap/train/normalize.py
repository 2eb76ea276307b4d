"""Running moments: to normalize observations to mean 0 and standard deviation 1, and to scale rewards."""

import torch
from torch import Tensor

from hotlap.train import parallel


class Moments:
    """Mean and variance of all that was added, in all processes, by the parallel formula of Chan and others."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self.squares = torch.zeros(shape, dtype=torch.float64, device=device)  # summed, about the mean
        self.count = torch.zeros((), dtype=torch.float64, device=device)

    def add(self, values: Tensor) -> None:
        """A batch [B, ...]."""
        x = values.to(torch.float64)
        number = len(x) * parallel.world()
        mean = parallel.mean(x.mean(0))
        change = mean - self.mean
        total = self.count + number
        self.squares += parallel.total(((x - mean) ** 2).sum(0)) + change**2 * (self.count * number / total)
        self.mean += change * (number / total)
        self.count += number

    @property
    def variance(self) -> Tensor:
        return torch.where(self.count > 1, self.squares / self.count.clamp(min=1), torch.ones_like(self.squares))

    @property
    def scale(self) -> Tensor:
        """The factor that gives a standard deviation of 1, as float32."""
        return (self.variance + 1e-8).rsqrt().to(torch.float32)

    def normalize(self, values: Tensor) -> Tensor:
        return ((values - self.mean) * (self.variance + 1e-8).rsqrt()).clamp(-10, 10).to(torch.float32)

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "squares": self.squares, "count": self.count}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, kept in self.state().items():  # in place: CUDA graphs know where they are
            kept.copy_(state[name])


class RewardScale:
    """Divides rewards by the running standard deviation of the discounted return."""

    def __init__(self, rows: int, gamma: float, device: torch.device) -> None:
        self.moments, self.gamma = Moments((), device), gamma
        self.returns = torch.zeros(rows, device=device)  # discounted so far

    def scale_(self, rows: slice, reward: Tensor, done: Tensor) -> None:
        """In place: the rewards of a step of some rows, of which some are done with their episode."""
        returns = self.returns[rows]
        returns.mul_(self.gamma).add_(reward)
        self.moments.add(returns)
        reward.mul_(self.moments.scale)
        returns.mul_(1 - done)

    def state(self) -> dict[str, Tensor]:
        return {**self.moments.state(), "returns": self.returns}

    def load(self, state: dict[str, Tensor]) -> None:
        self.moments.load(state)
        self.returns.copy_(state["returns"])
