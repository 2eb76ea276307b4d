"""What a profile should measure, of a system or of a script."""

from dataclasses import dataclass

from hotlap.probe.options import ProbeOptions


@dataclass(frozen=True)
class ProfileOptions:
    iterations: int = 10
    warmup: int = 2
    seconds: float | None = None
    env_only: bool = False
    modules: bool = False
    detailed: bool = False
    targets: tuple[str, ...] = ()
    ranges: str | None = None
    sampler: bool = True
    patience: float = 300.0  # with `seconds`: that a script's training may take to begin
    period: float = 0.025  # seconds between two stack samples, of scripts
    pause: float = 2.0  # after each measured window of a script, hooks pause for this many times its length
    what_if: float = 4.0  # seconds to measure what-if curves for, when a script is stopped; 0: none

    @property
    def of_probe(self) -> ProbeOptions:
        """The part that concerns scripts."""
        return ProbeOptions(self.iterations, self.warmup, self.seconds, self.sampler, self.period, self.pause, self.what_if)
