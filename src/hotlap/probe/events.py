"""What hooks report: events, with the time they began and ended. `timeline.py` turns them into stages, a window at a time.

A hook costs most where it is least welcome: between two operations of the training loop its code and data are out of the
caches. So hooks only note what happened, as five numbers in an array; what it means is worked out when a window ends.

| kind | the last two numbers |
|---|---|
| STEPPED, RESETTING, EVALUATING (a reset) | environment; steps |
| WAITED | |
| ENDED: an episode, with the step before | environment; which of its environments |
| FORWARD, GRADIENT_FORWARD, and COMPILED, GRADIENT_COMPILED of functions that hold a pass and perhaps more | rows |
| BACKWARD | |
| OPTIMIZER | which one |
| REGION, PHASE: something that is a stage as a whole; the beginning of a phase | number of the path |
| CARVED: a stage inside the event that is open | number of the path |
| TO_DEVICE, TO_HOST: a copy | bytes; whether inside the event that is open |
| SYNCS: synchronising calls | how many; whether inside the event before |
| TARGETING: a network's parameters are asked for, after an update: a target network may follow it now | |
| LINE: a line of the training loop begins | number of its path, -1 if it has none of its own; whether a transition was stored |
"""

from __future__ import annotations

import struct
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import current_thread, get_ident

from hotlap.core.counts import ENV_STEPS
from hotlap.core.paths import OPTIMIZER as OPTIMIZE
from hotlap.core.paths import RESET, STEP
from hotlap.core.sample import Sample
from hotlap.probe.core import State
from hotlap.probe.kinds import (
    CARVED,
    COMPILED,
    ENDED,
    LINE,
    OPTIMIZER,
    PHASE,
    STEPPED,
    SYNCS,
    TO_DEVICE,
    TO_HOST,
    WAITED,
    Event,
    is_training,
    number_of,
)
from hotlap.probe.lines import LoopLines
from hotlap.probe.pending import Moment
from hotlap.probe.sampler import Stack
from hotlap.probe.threads import OtherThreads, Tally
from hotlap.probe.timeline import Timeline
from hotlap.probe.watching import Watch

WINDOW = 0.25  # seconds: shorter iterations are joined to windows of this length; of twice that where nothing is learned
LONGEST = 30.0  # seconds: a window ends at the next step whatever happens


class Events(State):
    """The events of one thread: the one that started it, until another learns while it does not (`learns_elsewhere`).

    `inside` is true while something open claims all that happens (an environment's step, a forward pass), and while nothing
    is measured at all: hooks check it first, and then do nothing.
    """

    __slots__ = (
        "_carved",
        "_on_pause_end",
        "_on_rest",
        "_on_window",
        "_pause_for",
        "_paused_since",
        "_traced",
        "_worker",
        "at_work",
        "cannot_pause",
        "counted",
        "learner_thread",
        "lines",
        "moments",
        "now",
        "on_study",
        "origin",
        "others",
        "timeline",
        "types",
        "watch",
        "window",
    )

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        super().__init__()
        self.now = now
        self.types: dict[str, str] = {}
        self.window = WINDOW
        self.on_study: Callable[[Events, dict[str, str]], None] = lambda *_: None  # told the user's functions that are a stage
        self.watch = Watch()  # of the window that is watched
        self.cannot_pause = False  # whether there are hooks that do not know how to count while paused
        self._begin(lambda _: None, 0, worker=False)
        self.inside, self.active = True, False

    def start(
        self,
        on_window: Callable[[Sample], None],
        origin: int | None = None,
        worker: bool = False,
        window: float = WINDOW,
        on_rest: Callable[[Sample], None] | None = None,
    ) -> None:
        """Begin to measure the calling thread. `origin` is when the run began; a worker's windows end by time alone.

        `on_rest` gets what other threads counted after the last event of the measured one.
        """
        self.window = window
        self._on_rest = on_rest or on_window
        self._begin(on_window, self.now() if origin is None else origin, worker)
        self.inside, self.active = False, True

    def _begin(self, on_window: Callable[[Sample], None], origin: int, worker: bool) -> None:
        self.thread = get_ident()
        self.learner_thread = ""  # its name, if another thread than the script's own learns
        self.origin = origin
        self.take()
        self.moments: list[Moment] = []  # when stack samples were taken
        self.region = ""  # the stage that is open, as a whole
        self._carved = ""  # the stage inside it
        self.updated = False  # whether something was learned since the last step
        self.counting = True  # whether environments' steps count; some adapters count them instead
        self.env_steps = 0  # since the start
        self.syncs = 0  # synchronising calls since the last event
        self.counted: defaultdict[str, float] = defaultdict(float)
        self.types_wanted = True  # whether hooks should note the types of the data they see, once per window
        self._worker = worker
        self.learned = False  # whether an optimizer has stepped
        self.touched = False  # whether an environment stepped in this window
        self._traced = False
        self.at_work: set[int] = set()  # ids of the environments and optimizers that stepped in the window that was traced
        self.watching = self.watching_steps = False
        self._on_window = on_window
        self._on_pause_end: Callable[[Sample], None] = lambda _: None
        self._pause_for = 0.0
        self._paused_since = 0
        self.paused = False
        self.threaded = False  # whether other threads were seen at work
        self.others = OtherThreads(self.now)
        self.timeline = Timeline(origin, collects=not worker)
        if (earlier := getattr(self, "lines", None)) is not None:
            earlier.close()
        self.lines = LoopLines(self.line_begins)
        self._open_window()

    def hand_over(self, on_window: Callable[[Sample], None]) -> None:
        """A worker learns: its windows are those of a script from now on, and somebody else writes them."""
        self._on_window, self._worker = on_window, False

    def stop(self) -> None:
        """End the last window at the last event: what comes after it, waiting for workers to end included, is not training."""
        was_active, self.active, self.inside = self.active, False, True
        self.lines.close()
        if self.paused:
            self._end_pause(self.now())
        elif was_active:
            log = self.events()
            while log and not is_training(log[-1]):
                log.pop()
            since = self.now() if log else self.timeline.opened
            self._close_window(None, log)
            if self.threaded:
                self._report_rest(since)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What happens in here is not the script's doing: hooks ignore it, and a pause is not longer for it."""
        before, since = (self.inside, self.active, self.paused), self.now()
        self.inside, self.active, self.paused = True, False, False
        try:
            yield
        finally:
            self.inside, self.active, self.paused = before
            self._paused_since += self.now() - since

    def _report_rest(self, since: int) -> None:
        """What other threads did after the last event is counted, too."""
        counts, _ = self._take_counts()
        now = self.now()
        if counts and now > since:
            self._report(self._on_rest, self.timeline.count_only([], since, now, counts))

    def trace(self) -> None:
        """Keep every span of the window that has just begun."""
        self._traced = True

    def __reduce__(self) -> tuple[Callable[[], Events], tuple[()]]:
        """A class that travels to a worker takes its hooks along; there they report to that process's events."""
        return _of_this_process, ()

    def events(self) -> list[Event]:
        """The events since the last time."""
        return list(struct.iter_unpack("5q", self.take()))

    # -- what hooks call; core.c does the same for the hottest of them --

    def begin(self, path: str) -> int:
        """When something begins that claims all that happens; 0 if it happens inside something else or on another thread."""
        if self.inside or get_ident() != self.thread:
            return 0
        if self.syncs:
            self.note_syncs(inside=False)
        self.inside, self.region = True, path
        return self.now()

    def end(self, kind: int, begin: int, first: int = 0, second: int = 0) -> None:
        end = self.now()
        self.inside, self.region = False, ""
        self.emit(kind, begin, end, first, second)
        if self.syncs:
            self.note_syncs(inside=True)

    def environment(self, path: str) -> int:
        """The same for environments: first, a window may end."""
        if self.inside or get_ident() != self.thread:
            return 0
        if self.updated or self.now() >= self.late:
            self.transition()
        return 0 if self.paused else self.begin(path)

    def stepped(self, kind: int, begin: int, env: int, steps: int = 0) -> None:
        if self.counting:
            self.env_steps += steps
        else:
            steps = 0
        self.touched = True
        self.end(kind, begin, env, steps)

    def at_once(self, kind: int, first: int = 0, second: int = 0) -> None:
        """Something that takes no time: a phase begins, an episode has ended."""
        if not self.inside and get_ident() == self.thread:
            now = self.now()
            self.emit(kind, now, now, first, second)

    def forward(self, rows: int, gradients: bool) -> None:
        """A function begins that holds a forward pass, and perhaps more: what happens inside it counts as itself."""
        self.at_once(COMPILED + gradients, rows)

    def phase(self, path: str) -> None:
        """A framework's adapter knows that `collect` or `update` begins here: what no event claims is the phase's."""
        self.at_once(PHASE, number_of(path))

    def waited(self, since: int) -> None:
        """Nobody has asked anything of this process since then. A window may end here."""
        if since and not self.inside and get_ident() == self.thread:
            now = self.now()
            self.emit(WAITED, since, now)
            if self.updated or now >= self.late:
                self.transition()

    def optimizer_ended(self, begin: int, optimizer: int = 0) -> None:
        if begin:
            self.end(OPTIMIZER, begin, optimizer)
            self.updated = self.learned = True
            if not self.touched and self.now() >= self.late:
                self.close_late()
        elif self.paused and not self.region and get_ident() == self.thread:
            self.emit(OPTIMIZER, 0, 0, optimizer)
            self.updated = True

    def close_late(self) -> None:
        """No environment is stepped here, so nothing else ends windows."""
        self._close_window(None)

    def learns_elsewhere(self) -> bool:
        """Another thread than the measured one is about to make an optimizer step. Whether it is measured from now on.

        It is if the measured one has never learned: that one collects for it, or only waits for it.
        """
        if not self.active:
            return False
        self.threaded = True
        if self.learned or self.paused or self.region == OPTIMIZE:
            return False
        self.learned = True
        log = self.events()
        self.thread, self.learner_thread = get_ident(), current_thread().name
        self._close_window(None, log)
        self.timeline = Timeline(self.origin)
        self._open_window()
        self.inside, self.paused = not self.active, False
        self.region = self._carved = ""
        return self.active

    def elsewhere(self) -> Tally | None:
        """On another thread than the measured one: where it counts and times itself."""
        if not self.active:
            return None
        self.threaded = True
        return self.others.tally()

    def in_environment(self, *paths: str) -> bool:
        """Whether an environment's step or reset (or just what is named) is open on this thread, nothing carved out."""
        fits = self.region in (paths or (STEP, RESET)) and not self._carved and not self.paused
        return fits and get_ident() == self.thread

    def carve(self, path: str) -> int:
        """What comes now is a stage of its own inside the one that is open: waiting for a worker, an episode's beginning."""
        self._carved = path
        return self.now()

    def carved(self, begin: int) -> None:
        self.emit(CARVED, begin, self.now(), number_of(self._carved))
        self._carved = ""

    def copied(self, begin: int, size: int, to_host: bool) -> None:
        """A copy between host and device."""
        if self.active and not self.paused and not self._carved and get_ident() == self.thread:
            self.emit(TO_HOST if to_host else TO_DEVICE, begin, self.now(), size, self.inside)

    def note_syncs(self, inside: bool) -> None:
        now = self.now()
        self.emit(SYNCS, now, now, self.syncs, inside)
        self.syncs = 0

    def count_steps(self, number: int) -> None:
        self.env_steps += number
        self.counted[ENV_STEPS] += number

    def line_begins(self, path: str | None) -> None:
        """A line of the training loop whose stage is known, or after which it is no longer."""
        self._mark(-1 if path is None else number_of(path), 0)

    def stored(self) -> None:
        """A transition was stored: since the environment's step, that was what the loop did."""
        self._mark(-1, 1)

    def _mark(self, number: int, stored: int) -> None:
        if self.syncs and not self.inside and get_ident() == self.thread:
            self.note_syncs(inside=False)
        self.at_once(LINE, number, stored)

    def moment(self, when: int, stack: Stack = (), seconds: float = 0.0) -> Moment:
        """When a stack sample is taken; which stage that was turns out when the window ends. May be asked from any thread."""
        moment = Moment(when, stack, seconds)
        self.moments.append(moment)
        return moment

    # -- pauses: between windows that are measured, hooks let everything pass and only steps and updates are counted --

    def pause(self, seconds: float, on_end: Callable[[Sample], None]) -> None:
        """After the window that has just ended, measure nothing until something was learned after this time."""
        self._pause_for, self._on_pause_end = seconds, on_end

    def stepped_while_paused(self, env: int, steps: int, ended: Iterable[int]) -> None:
        if self.counting:
            self.env_steps += steps
        else:
            steps = 0
        self.touched = True
        self.emit(STEPPED, 0, 0, env, steps)
        for which in ended:
            self.emit(ENDED, 0, 0, env, which)

    def resumes(self) -> bool:
        """Whether the pause is over, asked when an environment is about to step; then measuring continues."""
        if not self.updated:
            return False
        self.updated = False
        now = self.now()
        if now < self.due:
            return False
        self.inside = False
        self._end_pause(now)
        return True

    def _end_pause(self, now: int) -> None:
        counts, threads = self._take_counts()
        sample = self.timeline.count_only(self.events(), self._paused_since, now, counts)
        sample.threads = threads
        self.paused = False
        self.moments, self.syncs = [], 0
        self._report(self._on_pause_end, sample if sample.wall > 0 else None)

    # -- windows --

    def transition(self) -> None:
        """An environment is about to step. A window ends here if something was learned before, or if it is late."""
        updated, self.updated = self.updated, False
        if updated and self.lines.wants_steps:
            self.lines.note_step(sys._getframe(1))
        now = self.now()
        if (updated and now >= self.due) or now >= self.late:
            self._close_window(now)

    def _close_window(self, now: int | None, log: Iterable[Event] | None = None) -> None:
        """`now` is when an environment begins to step; None at the end. The events are all, if they are not given."""
        log = struct.iter_unpack("5q", self.take()) if log is None else log  # read one by one: a list would fill the caches
        counts, threads = self._take_counts()
        moments, self.moments = self.moments, []
        for moment in moments:
            moment.by_lines = self.lines.path_of(moment.stack)
        if self._traced:
            log = list(log)
            self.at_work = {first for kind, _, _, first, _ in log if kind in (STEPPED, OPTIMIZER)}
        sample = self.timeline.window(log, now, counts, moments, self._traced)
        if sample is not None:
            sample.threads = threads
        elif self.threaded:
            self.counted = counts
        self._traced, self.types_wanted = False, True
        try:
            self._report(self._on_window, sample)
        finally:
            if self._pause_for and self.active:
                self._paused_since = self.now()
                self.due = self._paused_since + int(self._pause_for * 1e9)
                self.inside = self.paused = True
                self._pause_for = 0.0

    def _take_counts(self) -> tuple[defaultdict[str, float], dict[str, dict[str, int]]]:
        """What was counted since the last window, other threads' counts included; and their times."""
        counts, self.counted = self.counted, defaultdict(float)
        if not self.threaded:
            return counts, {}
        threads, counted = self.others.take()
        for what, number in counted.items():
            counts[what] += number
        return counts, threads

    def _report(self, on_sample: Callable[[Sample], None], sample: Sample | None) -> None:
        """Writing the record between two windows belongs to no stage: hooks ignore it, and the next window begins after it."""
        inside, self.inside = self.inside, True
        syncs = self.syncs
        try:
            if sample is not None:
                on_sample(sample)
        finally:
            self.inside = inside or not self.active
            if (functions := self.lines.study()) is not None:
                self.timeline.forget_samples()
                self.on_study(self, functions)
            self.take()
            self.syncs = syncs
            self._open_window()

    def _open_window(self) -> None:
        now = self.now()
        self.timeline.open(now)
        self.due = now + int(self.window * 1e9)
        idle = self._worker or not self.learned or not self.touched
        self.late = now + int((2 * self.window if idle else LONGEST) * 1e9)
        self.touched = False


EVENTS = Events()  # of this process; hooks are installed once and report to it


def _of_this_process() -> Events:
    return EVENTS
