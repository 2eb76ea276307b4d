"""What the probe should measure of a script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeOptions:
    iterations: float = 10  # windows, late warm-up not counted
    warmup: int = 2  # windows after learning has begun
    seconds: float | None = None  # instead of a number of windows
    sampler: bool = True  # whether to sample which lines take the time
    period: float = 0.025  # seconds between two stack samples
    pause: float = 2.0  # after each measured window, hooks pause for this many times its length
    what_if: float = 4.0  # seconds to measure what-if curves for, when the script is stopped; 0: none
