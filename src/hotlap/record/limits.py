"""Limits such as `iteration_time<5s` or `memory<2GB` that a run meets or misses."""

import operator
import re
from dataclasses import dataclass

from hotlap.core import units
from hotlap.record.profile import LimitResult, Profile

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_KINDS = {
    "iteration_time": "seconds",
    "memory": "bytes",
    "gpu_memory": "bytes",
    "env_steps_per_s": "plain",
    "updates_per_s": "plain",
    "episodes_per_s": "plain",
    "unattributed": "share",
    "overhead": "share",
}


@dataclass(frozen=True)
class Limit:
    text: str
    metric: str
    compare: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> "Limit":
        matched = re.fullmatch(r"\s*(\w+)\s*(<=|>=|<|>)\s*(.+?)\s*", text)
        if not matched:
            raise ValueError(f"target {text!r} must look like 'iteration_time<5s' or 'memory<2GB'")
        metric, compare, value = matched.groups()
        if metric not in _KINDS:
            raise ValueError(f"target {text!r}: unknown metric {metric!r}; choose one of {', '.join(_KINDS)}")
        try:
            return cls(text, metric, compare, units.parse(value, _KINDS[metric]))
        except ValueError as error:
            raise ValueError(f"target {text!r}: {error}") from None

    def judge(self, profile: Profile) -> LimitResult:
        """Measured value and verdict; a value that was not measured is a failure."""
        measured = self._measured(profile)
        passed = measured is not None and bool(_COMPARE[self.compare](measured, self.limit))
        return LimitResult(self.text, measured, self.limit, passed)

    def _measured(self, profile: Profile) -> float | None:
        seconds, memory, throughput = profile.iterations.seconds, profile.memory, profile.throughput
        values: dict[str, float | None] = {
            "iteration_time": seconds.median if seconds else None,
            "memory": memory.peak_bytes,
            "gpu_memory": memory.gpu_peak_bytes or None,
            "env_steps_per_s": throughput.env_steps_per_s,
            "updates_per_s": throughput.updates_per_s,
            "episodes_per_s": throughput.episodes_per_s,
            "unattributed": profile.unattributed,
            "overhead": profile.measuring.overhead,
        }
        return values[self.metric]

    def show(self, measured: float | None) -> str:
        if measured is None:
            return "not measured"
        show = {"seconds": units.seconds, "bytes": units.size, "plain": units.count, "share": units.share}
        return show[_KINDS[self.metric]](measured)
