"""What one iteration of a trainer logged."""

from dataclasses import dataclass, field


@dataclass
class Metrics:
    """What one iteration logged."""

    scalars: dict[str, float] = field(default_factory=dict)
    episodes: dict[str, list[float]] = field(default_factory=dict)  # return, length and the game's own, per episode
    sums: dict[str, tuple[float, int]] = field(default_factory=dict)  # the same where only sums are known, and of how many

    @property
    def ended(self) -> int:
        """How many episodes."""
        return len(self.episodes.get("return", ())) + self.sums.get("return", (0.0, 0))[1]

    @property
    def means(self) -> dict[str, float]:
        """Of the episodes that ended."""
        lists = {name: sum(values) / len(values) for name, values in self.episodes.items()}
        return lists | {name: total / count for name, (total, count) in self.sums.items()}

    def add_sum(self, name: str, total: float, count: int) -> None:
        if count:
            before = self.sums.get(name, (0.0, 0))
            self.sums[name] = before[0] + total, before[1] + count
