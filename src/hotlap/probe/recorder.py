"""Writes what the timeline saw of the script to the record, window by window. `worker.py` does so for its processes."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hotlap.core import machine, units
from hotlap.core.counts import ENV_STEPS, FORWARDS, UPDATES
from hotlap.core.paths import STEP
from hotlap.core.sample import MAX_EVENTS, Sample
from hotlap.core.warmup import warmup_end
from hotlap.probe import core, delays, what_if
from hotlap.probe.cost import event_cost
from hotlap.probe.describe import describe, gemm_rate, sources, user_modules
from hotlap.probe.events import EVENTS
from hotlap.probe.gpu import GpuTrace
from hotlap.probe.hooks import functions, nested, plain, table
from hotlap.probe.hooks.patching import Finder
from hotlap.probe.hooks.torch import watch_distributions, watch_reads
from hotlap.probe.notes import note, notes
from hotlap.probe.options import ProbeOptions
from hotlap.probe.sampler import Sampler
from hotlap.probe.stopping import Listener, StopProfiling, stop_script
from hotlap.probe.timing import TimeUp
from hotlap.probe.usage import Usage, threads
from hotlap.probe.watching import Watch
from hotlap.record import observed
from hotlap.record.files import KERNELS, LEARNERS, SAMPLES, SOURCES, STACKS, TRACED
from hotlap.record.lines import BARE, MEASURED, WARMUP, Recorded, append_line
from hotlap.record.lines import TRACED as TRACED_PHASE
from hotlap.record.observed import Description, Observed, Outcome, write_outcome
from hotlap.record.what_if import WhatIfCurves

PATIENCE = 120.0  # seconds that a script has to begin learning; then it is measured anyway
PROBE = "HOTLAP_PROBE"  # environment variable: where a worker process finds the run
_finder: Finder | None = None


def install() -> None:
    """Hook what is imported, and what will be. Without a started timeline the hooks do nothing."""
    global _finder
    from hotlap.probe.worker import forked

    if _finder is None:
        _finder = Finder(EVENTS, table.patches())
        _finder.install()
        plain.hook(EVENTS)
        EVENTS.on_study = functions.hook
        os.register_at_fork(after_in_child=forked)


def see_workers() -> None:
    """Python processes that this one starts from now on run `site/sitecustomize.py`."""
    folder = str(Path(__file__).with_name("site"))
    paths = os.environ.get("PYTHONPATH", "")
    if folder not in paths.split(os.pathsep):
        os.environ["PYTHONPATH"] = folder + (os.pathsep + paths if paths else "")


class Recorder:
    """The script's windows: warm-up until learning has begun and `warmup` windows more, one traced, then measured ones.

    `folder` is the run's, where a file of samples lies. The record itself is written by hotlap, not here.
    """

    def __init__(self, folder: Path, options: ProbeOptions) -> None:
        self._folder, self._options = folder, options
        self._left = options.warmup
        self._learning = self._has_updates = False
        self._patience = PATIENCE
        self._walls: list[int] = []
        self._paused = 0
        self._since_pause = 0  # what was measured since then
        self._traced = False
        self._gpu: GpuTrace | None = None
        self._pid = os.getpid()
        self._usage = Usage()
        self._ended = False
        self._description = Description()
        self._event_cost: float | None = None
        self._listener: Listener | None = None
        self._thread = threading.current_thread()  # that is measured
        self._watch: Watch | None = None
        self._what_if: WhatIfCurves | None = None
        self.stopped_at: tuple[float, int] | None = None  # when, and at which environment step
        self._what_if_thread = 0
        self._what_if_until: float | None = None  # while it is measured: when it has to end
        self._peak_rss = 0
        self.sampler = Sampler(EVENTS.moment, options.period) if options.sampler else None

    def begin(self) -> None:
        """Start measuring this thread; worker processes that start from now on report too."""
        nested.put_all_back()
        EVENTS.start(self.write, on_rest=self._write_pause)
        settings = {"run": str(self._folder), "origin": EVENTS.origin, "script": self._pid, "options": asdict(self._options)}
        os.environ[PROBE] = json.dumps(settings)
        see_workers()
        self._listener = Listener(self._folder)

    @property
    def was_told_to_stop(self) -> bool:
        """Whether a thread or process that learns stopped the script: others may go on, and keep it from ending."""
        return self._listener is not None and self._listener.stopped

    def end(self) -> Observed:
        """Stop measuring; what was seen beside the samples."""
        if self._listener:
            self._listener.close()
        if self.sampler:
            self.sampler.close()
        self._ended = True
        EVENTS.stop()
        self._usage.close()
        os.environ.pop(PROBE, None)
        self._event_cost = event_cost()
        if core.WHY_PYTHON:
            cost = units.seconds(self._event_cost)
            note("hotlap", f"Hooks ran in Python ({core.WHY_PYTHON}), so an event cost {cost}: see the overhead.")
        return self.observed()

    def observed(self) -> Observed:
        if self._description.gemm_rate is None:
            self._description = replace(self._description, gemm_rate=gemm_rate())
        gpu = self._gpu.activity if self._gpu else None
        seen = Observed(
            event_cost=self._event_cost,
            usage=observed.Usage(self._peak_rss or machine.peak_rss(), gpu.busy if gpu else None, gpu),
            threads=threads(),
            types=_types(),
            notes=notes(),
            description=self._description,
            learner_thread=EVENTS.learner_thread,
            what_if=self._what_if,
            step_names=plain.step_names(),
            user_modules=user_modules(),
        )
        if self.sampler is None:
            return seen
        self._save(STACKS, self.sampler.stacks())
        self._save(SOURCES, sources(self.sampler))
        return replace(
            seen,
            hot_lines=self.sampler.hottest(),
            hot_functions=self.sampler.functions(),
            user_lines=self.sampler.user_lines(),
            sampler_seconds=self.sampler.seconds,
            sampler_period=self._options.period,
        )

    @property
    def measured(self) -> tuple[int, float]:
        """Windows after warm-up, and the seconds that they and the pauses between them took."""
        return len(self._walls), (sum(self._walls) + self._paused) * 1e-9

    def write(self, sample: Sample) -> None:
        if os.getpid() != self._pid:
            return
        self._follow_thread()
        if self.sampler:
            self.sampler.pause()  # what follows is not the script's doing
        sample.counts.update(self._usage.since())
        phase = TRACED_PHASE if sample.events else MEASURED if self._warm else WARMUP
        if sample.events:
            self._finish_trace(sample)
        elif self._warm:
            self._walls.append(sample.wall)
            if self.sampler and not self._ended:
                self.sampler.keep()
        self._append(phase, sample)
        if self._learning and not self._warm:
            self._left -= 1
        if sample.counts.get(ENV_STEPS) or any(FORWARDS in name for name in sample.counts):
            self._patience -= sample.wall * 1e-9  # who only waits may wait for another process to begin
        self._has_updates = self._has_updates or bool(sample.counts.get(UPDATES))
        self._learning = self._learning or self._has_updates or self._patience < 0
        if self._warm and not self._traced:
            self._begin_trace()
        elif self._warm and self.sampler:
            self.sampler.resume()
        if not self._ended and self._is_enough():  # again and again, should the script catch it
            self._stop()
        if phase == MEASURED and sample.exclusive.get(STEP) and not self._ended:
            self._since_pause += sample.wall
            # An iteration may be longer than a window. A pause before its update would hide the update, each time.
            if sample.counts.get(UPDATES) or not EVENTS.learned:
                self._begin_pause(self._options.pause * self._since_pause * 1e-9)
                self._since_pause = 0

    def _begin_trace(self) -> None:
        self._traced = True
        self._gpu = GpuTrace.begin(EVENTS.origin)
        watch_reads(True)
        if self._options.what_if:
            EVENTS.watch, EVENTS.watching, EVENTS.watching_steps = Watch(), True, True
            watch_distributions(EVENTS, True)
        EVENTS.trace()

    def _finish_trace(self, sample: Sample) -> None:
        watch_reads(False)
        if EVENTS.watching:
            self._watch, EVENTS.watch = EVENTS.watch, Watch()
            EVENTS.watching = EVENTS.watching_steps = False
            watch_distributions(EVENTS, False)
            if not (EVENTS.threaded or delays.is_on()):
                nested.take_off(self._watch.nested, self._watch.outermost)
            with suppress(Exception):
                self._watch.settle(sample, EVENTS.origin)
        with suppress(Exception):  # strange objects must never be the script's trouble
            self._description = describe(EVENTS.at_work)
        if self._gpu:
            sample.gpu = self._gpu.end(sample)
            self._save(KERNELS, self._gpu.spans[:MAX_EVENTS])
        self._save(TRACED, {"start": sample.start, "end": sample.start + sample.wall})

    def _begin_pause(self, seconds: float) -> None:
        if EVENTS.cannot_pause or seconds <= 0:
            return
        EVENTS.pause(seconds, self._write_pause)
        if self.sampler:
            self.sampler.pause()

    def _write_pause(self, sample: Sample) -> None:
        if os.getpid() != self._pid:
            return
        self._usage.since()
        self._append(BARE, sample)
        self._paused += sample.wall
        if self.sampler and not self._ended:
            self.sampler.resume()
        if not self._ended and self._is_enough():
            self._stop()

    def _follow_thread(self) -> None:
        """Another thread learns, and is measured instead."""
        if EVENTS.thread == self._thread.ident or threading.get_ident() != EVENTS.thread:
            return
        self._thread = threading.current_thread()
        if self.sampler:
            self.sampler.close()
            self.sampler = Sampler(EVENTS.moment, self._options.period)

    def _stop(self) -> None:
        """Enough was measured. An exception here would end this thread alone, if it is not the main one."""
        self.measure_what_if()
        self.note_stop()
        if threading.current_thread() is threading.main_thread():
            raise StopProfiling
        stop_script(self._folder, self._pid)

    def note_stop(self) -> None:
        """The script is stopped now: nobody else needs to. What was seen is kept, should the script never come to its end."""
        self.stopped_at = (time.monotonic(), EVENTS.env_steps)
        EVENTS.updated = False  # so that an update after this is one of a script that goes on
        with suppress(OSError):
            write_outcome(self._folder, Outcome("done", observed=self.observed()))

    def measure_what_if(self, seconds: float = math.inf) -> None:
        """Once, before the script unwinds: its objects are still there. For so long at most, if not less was asked for."""
        if not self._watch or self._what_if or os.getpid() != self._pid:
            return
        if self.sampler:
            self.sampler.pause()
        self._peak_rss = machine.peak_rss()  # the copies are not the script's
        seconds = min(seconds, self._options.what_if)
        with suppress(TimeUp), EVENTS.unseen():
            try:
                self._what_if_thread = threading.get_ident()
                self._what_if_until = time.monotonic() + seconds
                self._what_if = what_if.measured(self._watch, seconds)
            finally:
                self._what_if_until = None

    def is_measuring_what_if(self) -> bool:
        """Asked by a signal's handler. Raises `TimeUp` where it is measured, if that takes too long."""
        is_here = self._what_if_thread == threading.get_ident()
        if is_here and self._what_if_until is not None and time.monotonic() > self._what_if_until:
            self._what_if_until = None
            raise TimeUp
        return self._what_if_until is not None

    def _append(self, phase: str, sample: Sample) -> None:
        try:
            append_line(self._folder / SAMPLES, Recorded(phase, sample, machine.rss(), machine.gpu_memory()))
        except OSError as problem:  # not the script's fault: it is stopped as if enough had been measured
            if not self._ended:
                reason = f"cannot write to {self._folder}: {problem.strerror}; samples before this one are kept"
                print(f"hotlap: {reason}", file=sys.stderr)
                self._stop()

    @property
    def _warm(self) -> bool:
        return self._learning and self._left <= 0

    def _is_enough(self) -> bool:
        """As many windows as asked for, late warm-up not counted; or as much time."""
        if not self._has_updates and (self._folder / LEARNERS).is_dir():
            return False  # another process learns, and decides
        seconds, wanted = self._options.seconds, self._options.iterations
        if seconds is not None:
            return sum(self._walls) + self._paused >= seconds * 1e9
        if len(self._walls) < wanted:
            return False
        steady = len(self._walls) - warmup_end(self._walls)
        return steady >= wanted or len(self._walls) >= 2 * wanted + 10

    def _save(self, name: str, content: Any) -> None:
        with suppress(OSError):
            (self._folder / name).write_text(json.dumps(content))


def _types() -> dict[str, str]:
    """Number formats that were seen: of observations, of what networks get, and of their parameters."""
    types = dict(EVENTS.types)
    if torch := sys.modules.get("torch"):
        types["default"] = str(torch.get_default_dtype()).removeprefix("torch.")
    return types
