"""Targets such as `iteration_time<5s` or `memory<2GB`: a limit that a run meets or misses."""

import operator
import re
from dataclasses import dataclass
from typing import Any

from hotlap.core import units

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
class Target:
    text: str
    metric: str
    compare: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> "Target":
        found = re.fullmatch(r"\s*(\w+)\s*(<=|>=|<|>)\s*(.+?)\s*", text)
        if not found:
            raise ValueError(f"target {text!r} must look like 'iteration_time<5s' or 'memory<2GB'")
        metric, compare, value = found.groups()
        if metric not in _KINDS:
            raise ValueError(f"target {text!r}: unknown metric {metric!r}; choose one of {', '.join(_KINDS)}")
        try:
            return cls(text, metric, compare, units.parse(value, _KINDS[metric]))
        except ValueError as error:
            raise ValueError(f"target {text!r}: {error}") from None

    def judge(self, document: dict[str, Any]) -> dict[str, Any]:
        """Measured value and verdict; a value that was not measured is a failure."""
        measured = {
            "iteration_time": document["iterations"]["seconds"].get("median"),
            "memory": document["memory"]["peak_bytes"],
            "gpu_memory": document["memory"]["gpu_peak_bytes"] or None,
            "unattributed": document["unattributed"],
            "overhead": document["overhead"],
            **document["throughput"],
        }.get(self.metric)
        passed = measured is not None and bool(_COMPARE[self.compare](measured, self.limit))
        return {"target": self.text, "measured": measured, "limit": self.limit, "passed": passed}

    def show(self, measured: float | None) -> str:
        if measured is None:
            return "not measured"
        show = {"seconds": units.seconds, "bytes": units.size, "plain": units.count, "share": units.share}
        return show[_KINDS[self.metric]](measured)
