"""Time between events, divided among the stages that stack samples name by their lines.

A window holds a dozen samples, too few for itself. So the samples of all windows until then divide it: those in time that
followed the same event and was settled the same way.
"""

from __future__ import annotations

from collections import defaultdict

from hotlap.probe.pending import Pending

_Key = tuple[int, str]  # the kind of pending time, and the stage that events alone give it


class SampledShares:
    def __init__(self) -> None:
        self._times: defaultdict[_Key, int] = defaultdict(int)  # in this window
        self._seconds: defaultdict[_Key, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))  # that samples saw

    def add(self, pending: Pending, path: str) -> None:
        """Pending time is settled: events say that it was `path`."""
        key = (pending.kind, path)
        self._times[key] += pending.time
        for moment in pending.moments:
            moment.what = moment.by_lines or path  # lines of no stage leave it to the events
            self._seconds[key][moment.what] += moment.seconds

    def divide(self, exclusive: defaultdict[str, int]) -> None:
        """Move time of the window that ends to the stages that were seen."""
        for (kind, path), time in self._times.items():
            seconds = self._seconds[kind, path]
            seen = sum(seconds.values())
            for other, part in seconds.items():
                if other != path and part > 0:
                    amount = int(time * part / seen)
                    if path:
                        amount = min(amount, exclusive[path])
                        exclusive[path] -= amount
                    if other:
                        exclusive[other] += amount
        self._times.clear()
