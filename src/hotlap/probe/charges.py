"""What a window's time is charged to: its stages, what they counted, where it lay in a window that is traced.

Time passes in two ways: in something that is a stage as a whole, or while nothing is open but what is pending (`pending.py`).
A window has thousands of events, and the script waits while they are looked at.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

from hotlap.core import stages
from hotlap.core.counts import FORWARDS, GRADIENT_FORWARDS, PARALLEL, ROWS, STEP_MEDIAN, STEP_P99
from hotlap.core.sample import MAX_EVENTS, Sample
from hotlap.probe.kinds import BYTES, CARVED, COPIES, PATHS, Event
from hotlap.probe.pending import BY_LINES, GRADIENT_PASS, PASS, START, Moment, Pending
from hotlap.probe.shares import SampledShares

_Times = defaultdict[str, int]
_Counts = defaultdict[str, float]


class Run:
    """What events on one environment charged and counted."""

    __slots__ = ("counts", "exclusive")

    def __init__(self) -> None:
        self.exclusive: _Times = defaultdict(int)
        self.counts: _Counts = defaultdict(float)


class Turns:
    """Environments that step one after another, each an object of its own, as they do in `for env in envs`."""

    def __init__(self) -> None:
        self._round: set[int] = set()  # that have stepped since actions were chosen
        self._seen: set[int] = set()
        self._returned: set[int] = set()  # that stepped again after another one
        self._last = 0

    @property
    def parallel(self) -> int:
        return len(self._returned) if len(self._returned) > 1 else 0

    def begins_round(self, env: int) -> bool:
        """Whether actions were chosen anew for this step."""
        if env != self._last:
            if env in self._seen:
                self._returned.add(env)
            self._seen.add(env)
            self._last = env
        begins = not self._round or env in self._round
        if begins:
            self._round = {env}
        else:
            self._round.add(env)
        return begins

    def end_round(self) -> None:
        """A network ran: what steps now was chosen by it."""
        self._round = set()


class Charges:
    """Of one window after the other. `origin` is when the run began, in the nanoseconds of the events."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._last = self.opened = origin
        self._pending = [Pending(START)]
        self._run: Run | None = None  # what was charged to events on one environment, if these may turn out to be an evaluation
        self._shares = SampledShares()
        self._fresh([], False)

    def forget_samples(self) -> None:
        """What lines are known to do has changed: stack samples until now say nothing about windows to come."""
        self._shares = SampledShares()

    def open(self, now: int) -> None:
        """A window begins."""
        self.opened = self._last = now

    def _fresh(self, moments: list[Moment], traced: bool) -> None:
        self._exclusive: _Times = defaultdict(int)
        self._calls: _Times = defaultdict(int)
        self._counts: _Counts = defaultdict(float)
        self._step_times: list[int] = []
        self._turns = Turns()
        self._held: list[Event] = []  # what happened inside an event whose end is still to come
        self._ended = ""  # the stage of the event before
        self._moments = moments[::-1]  # the next one last
        # Where each piece of time lay in a traced window: whose it is, begin, end, whether it is a copy.
        self._spans: list[tuple[Pending | str, int, int, bool]] | None = [] if traced else None
        self._is_plain = not traced and not moments  # whether there are only times to add up

    # -- time passes --

    def _until(self, now: int) -> None:
        """Time passes in which nothing was open but what is pending."""
        last = self._last
        if now < last:
            now = last
        self._last = now
        if self._pending:
            self._pending[-1].time += now - last
        if self._is_plain:
            return
        pending = self._pending[-1] if self._pending else ""
        if pending:
            self._keep_span(pending, last, now)
        if self._moments and self._moments[-1].time < now:
            self._name_moments(now, pending)

    def _pass(self, path: str, end: int) -> int:
        """Time passes in something that is a stage as a whole, except for what was carved out of it."""
        last = self._last
        if end < last:
            end = last
        amount = 0
        if self._held:
            amount = self._pass_held(path, end)
            last = self._last
        amount += end - last
        self._exclusive[path] += amount
        self._calls[path] += 1
        if self._run is not None:
            self._run.exclusive[path] += amount
        self._last = end
        self._ended = path
        if not self._is_plain:
            self._keep_span(path, last, end)
            if self._moments and self._moments[-1].time < end:
                self._name_moments(end, path)
        return amount

    def _pass_held(self, path: str, end: int) -> int:
        """What was carved out of an event, and how long the event itself took until the end of that."""
        amount = 0
        for kind, begin, to, number, _ in self._take_held(end):
            inner = PATHS[number] if kind == CARVED else f"{path}/{stages.TRANSFER}"
            if self._moments and self._moments[-1].time < to:
                self._name_moments(begin, path)
                self._name_moments(to, inner)
            amount += begin - self._last
            self._keep_span(path, self._last, begin)
            self._charge(inner, to - begin)
            self._keep_span(inner, begin, to)
            self._last = to
            if kind != CARVED:
                self._counts[f"{COPIES[kind]}@{path}"] += 1
                self._counts[f"{BYTES[kind]}@{path}"] += number
        return amount

    def _take_held(self, end: int) -> list[Event]:
        """What happened inside the event that ends here, in order.

        An event that never ended, because it raised an error, leaves its own behind: none reaches out of this one.
        """
        held, self._held = self._held, []
        reached, inside = self._last, []
        for kind, begin, to, first, second in held:
            begin = min(max(begin, reached), end)
            reached = min(max(to, begin), end)
            inside.append((kind, begin, reached, first, second))
        return inside

    def _copy_while_pending(self, pending: Pending, event: Event) -> None:
        kind, _, end, size, _ = event
        if kind in COPIES:
            end = max(end, self._last)
            pending.copying += end - self._last
            pending.note(COPIES[kind], 1)
            pending.note(BYTES[kind], size)
            self._keep_span(pending, self._last, end, copying=True)
            if self._moments and self._moments[-1].time < end:
                self._name_moments(end, pending)
            self._last = end

    # -- what was pending has a stage --

    def _settle(self, pending: Pending, path: str) -> None:
        kind = pending.kind
        if pending.is_known:
            path = pending.path
        else:
            if kind in BY_LINES:
                self._shares.add(pending, path)
            pending.path = path
        if not path:
            return
        pending.settled = True
        self._exclusive[path] += pending.time
        self._calls[path] += 1
        if self._run is not None:
            self._run.exclusive[path] += pending.time
        if kind in (PASS, GRADIENT_PASS):
            passes, rows, with_gradients = _names_of_passes(path)
            counts = self._counts
            counts[passes] += 1
            counts[rows] += pending.rows
            if kind == GRADIENT_PASS:
                counts[with_gradients] += 1
        if pending.copying:
            self._charge(f"{path}/{stages.TRANSFER}", pending.copying)
        if pending.counts:
            for what, number in pending.counts.items():
                self._counts[f"{what}@{path}"] += number

    # -- bookkeeping --

    def _keep_span(self, owner: Pending | str, begin: int, end: int, copying: bool = False) -> None:
        if self._spans is not None and end > begin:
            self._spans.append((owner, begin, end, copying))

    def _name_moments(self, now: int, what: Pending | str) -> None:
        while self._moments and self._moments[-1].time < now:
            moment = self._moments.pop()
            moment.what = what
            if isinstance(what, Pending):
                what.moments = [*what.moments, moment]

    def _charge(self, path: str, amount: int) -> None:
        self._exclusive[path] += amount
        self._calls[path] += 1
        if self._run is not None:
            self._run.exclusive[path] += amount

    def _count(self, what: str, number: float) -> None:
        self._counts[what] += number
        if self._run is not None:
            self._run.counts[what] += number

    def _sample(self, counts: dict[str, float]) -> Sample | None:
        wall = self._last - self.opened
        if wall <= 0:
            return None
        self._shares.divide(self._exclusive)
        total: dict[str, int] = {}
        for path, amount in self._exclusive.items():
            name: str | None = path
            while name:
                total[name] = total.get(name, 0) + amount
                name = stages.parent(name)
        exclusive = {path: self._exclusive.get(path, 0) for path in total}
        calls = {path: self._calls.get(path, 0) for path in total}
        for what, number in counts.items():
            self._counts[what] += number
        if self._turns.parallel:
            self._counts[PARALLEL] = self._turns.parallel
        if times := sorted(self._step_times):
            self._counts[STEP_MEDIAN] = times[len(times) // 2] * 1e-9
            self._counts[STEP_P99] = times[len(times) * 99 // 100] * 1e-9
        sample = Sample(self.opened - self._origin, wall, exclusive, total, calls, dict(self._counts))
        sample.events = self._traced_spans()[:MAX_EVENTS]
        return sample

    def _traced_spans(self) -> list[tuple[str, int, int]]:
        """(path, start, duration) of each span that a stage claims; none overlaps another, and all lie inside the window."""
        spans = []
        for owner, begin, end, copying in self._spans or ():
            path = owner if isinstance(owner, str) else owner.path if owner.settled else ""
            if path:
                spans.append((f"{path}/{stages.TRANSFER}" if copying else path, begin - self._origin, end - begin))
        return spans


@lru_cache(maxsize=256)
def _names_of_passes(path: str) -> tuple[str, str, str]:
    """Under which names the passes of a stage are counted, their rows, and those with gradients."""
    return f"{FORWARDS}@{path}", f"{ROWS}@{path}", f"{GRADIENT_FORWARDS}@{path}"
