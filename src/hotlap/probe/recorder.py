"""Writes what the timeline saw to the record: of the script, window by window, and of each of its worker processes."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.core import machine, units
from hotlap.core.counts import CV2_THREADS, ENV_STEPS, FORWARDS, THREADS, UPDATES
from hotlap.core.paths import STEP
from hotlap.core.sample import MAX_EVENTS, Sample
from hotlap.core.warmup import warmup_end
from hotlap.probe import core
from hotlap.probe.cost import event_cost
from hotlap.probe.describe import describe, gemm_rate, sources
from hotlap.probe.events import EVENTS
from hotlap.probe.gpu import GpuTrace
from hotlap.probe.hooks import plain, table
from hotlap.probe.hooks.patching import Finder
from hotlap.probe.hooks.torch import watch_reads
from hotlap.probe.notes import note, notes
from hotlap.probe.options import ProbeOptions
from hotlap.probe.sampler import Sampler
from hotlap.probe.usage import Usage, threads
from hotlap.record import observed
from hotlap.record.files import KERNELS, SAMPLES, SOURCES, STACKS, TRACED
from hotlap.record.lines import BARE, MEASURED, TRAIN, WARMUP, Recorded, append_line
from hotlap.record.lines import TRACED as TRACED_PHASE
from hotlap.record.observed import Description, Observed

PATIENCE = 120.0  # seconds that a script has to begin learning; then it is measured anyway
MOST_WORKER_SPANS = 20_000  # kept by a worker until it knows which of them the trace covers
PROBE = "HOTLAP_PROBE"  # environment variable: where a worker process finds the run
_finder: Finder | None = None


class StopProfiling(BaseException):
    """Enough has been measured: raised in the script, so that its `finally` blocks run."""


def install() -> None:
    """Hook what is imported, and what will be. Without a started timeline the hooks do nothing."""
    global _finder
    if _finder is None:
        _finder = Finder(EVENTS, table.patches())
        _finder.install()
        plain.hook(EVENTS)
        os.register_at_fork(after_in_child=_forked)


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
        self._learning = False
        self._patience = PATIENCE
        self._walls: list[int] = []
        self._paused = 0
        self._traced = False
        self._gpu: GpuTrace | None = None
        self._pid = os.getpid()
        self._usage = Usage()
        self._ended = False
        self._description = Description()
        self.sampler = Sampler(EVENTS.moment, options.period) if options.sampler else None

    def begin(self) -> None:
        """Start measuring this thread; worker processes that start from now on report too."""
        EVENTS.start(self.write)
        os.environ[PROBE] = json.dumps({"run": str(self._folder), "origin": EVENTS.origin})
        see_workers()

    def end(self) -> Observed:
        """Stop measuring; what was seen beside the samples."""
        if self.sampler:
            self.sampler.close()
        self._ended = True
        EVENTS.stop()
        self._usage.close()
        os.environ.pop(PROBE, None)
        cost = event_cost()
        if core.WHY_PYTHON:
            note(
                "hotlap", f"Hooks ran in Python ({core.WHY_PYTHON}), so an event cost {units.seconds(cost)}: see the overhead."
            )
        seen = Observed(
            event_cost=cost,
            usage=observed.Usage(machine.peak_rss(), self._gpu.busy if self._gpu else None),
            threads=threads(),
            types=_types(),
            notes=notes(),
            description=replace(self._description, gemm_rate=gemm_rate()),
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

    def write(self, sample: Sample) -> None:
        if os.getpid() != self._pid:
            return
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
        self._patience -= sample.wall * 1e-9
        self._learning = self._learning or bool(sample.counts.get(UPDATES)) or self._patience < 0
        if self._warm and not self._traced:
            self._begin_trace()
        elif self._warm and self.sampler:
            self.sampler.resume()
        if not self._ended and self._is_enough():  # again and again, should the script catch it
            raise StopProfiling
        if phase == MEASURED and sample.exclusive.get(STEP) and not self._ended:
            self._begin_pause(self._options.pause * sample.wall * 1e-9)

    def _begin_trace(self) -> None:
        self._traced = True
        self._gpu = GpuTrace.begin(EVENTS.origin)
        watch_reads(True)
        EVENTS.trace()

    def _finish_trace(self, sample: Sample) -> None:
        watch_reads(False)
        with suppress(Exception):  # strange objects must never be the script's trouble
            self._description = describe()
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
            raise StopProfiling

    def _append(self, phase: str, sample: Sample) -> None:
        try:
            append_line(self._folder / SAMPLES, Recorded(phase, sample, machine.rss(), machine.gpu_memory()))
        except OSError as problem:  # not the script's fault: it is stopped as if enough had been measured
            if not self._ended:
                reason = f"cannot write to {self._folder}: {problem.strerror}; samples before this one are kept"
                print(f"hotlap: {reason}", file=sys.stderr)
                raise StopProfiling from problem

    @property
    def _warm(self) -> bool:
        return self._learning and self._left <= 0

    def _is_enough(self) -> bool:
        """As many windows as asked for, late warm-up not counted; or as much time."""
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


# -- worker processes --

_worker: Worker | None = None  # kept: multiprocessing finds it by a weak reference


class Worker:
    """A process that the script started. It writes its windows to a file of its own, once it has stepped or run a network."""

    def __init__(self, folder: Path, origin: int) -> None:
        self._path = folder / "workers" / f"{os.getpid()}.jsonl"
        self._folder = folder
        self._usage = Usage()
        self._events: list[tuple[str, int, int]] = []
        self._traced = False
        self._seen = False
        EVENTS.start(self.write, origin, worker=True)
        EVENTS.trace()
        self._at_exit()

    def end(self) -> None:
        if EVENTS.active and threading.get_ident() == EVENTS.thread:
            EVENTS.stop()

    def write(self, sample: Sample) -> None:
        sample.counts.update(self._usage.since())
        events, sample.events = sample.events, []
        self._seen = self._seen or bool(sample.counts.get(ENV_STEPS)) or any(FORWARDS in name for name in sample.counts)
        if not self._seen:
            EVENTS.trace()
            return
        if not self._traced:
            self._events = [*self._events, *events][-MOST_WORKER_SPANS:]
            EVENTS.trace()
            with suppress(OSError, ValueError):  # until the script's own traced window is over, nobody knows which spans
                span = json.loads((self._folder / TRACED).read_text())
                sample.events = [e for e in self._events if span["start"] <= e[1] <= span["end"]]
                self._traced, self._events = True, []
        used = threads()
        sample.counts.update({THREADS: used.get("torch", 1), CV2_THREADS: used.get("cv2", 0)})
        with suppress(OSError):  # the folder is gone, or full: never the user's trouble
            self._path.parent.mkdir(exist_ok=True)
            append_line(self._path, Recorded(TRAIN, sample, machine.rss()))

    def _at_exit(self) -> None:
        import atexit
        from multiprocessing import util

        # Processes of multiprocessing skip atexit, and forget what was to be finalized when they begin.
        util.Finalize(None, self.end, exitpriority=0)
        util.register_after_fork(self, lambda worker: util.Finalize(None, worker.end, exitpriority=0))
        atexit.register(self.end)


def become_worker() -> None:
    """Report as a worker to the run that the environment names, if there is one."""
    global _worker
    with suppress(KeyError, ValueError, OSError):
        settings = json.loads(os.environ[PROBE])
        if (folder := Path(settings["run"])).is_dir():
            install()
            _worker = Worker(folder, settings["origin"])


def _forked() -> None:
    """A process that the script forked has all its hooks, and must not go on writing the script's own windows."""
    was_measured, EVENTS.inside, EVENTS.active = EVENTS.active, True, False
    if was_measured:
        become_worker()
