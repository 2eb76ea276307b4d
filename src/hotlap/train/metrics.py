"""What one iteration of a trainer logged."""

from dataclasses import dataclass, field


@dataclass
class Metrics:
    """What one iteration logged."""

    scalars: dict[str, float] = field(default_factory=dict)
    episodes: dict[str, list[float]] = field(default_factory=dict)  # return, length and the game's own, per episode
