"""Writes what the timeline saw to the record: of the script, window by window, and of each of its worker processes."""

import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.core import machine
from hotlap.core.counts import ENV_STEPS, FORWARDS, UPDATES
from hotlap.core.errors import RecordError
from hotlap.core.paths import STEP
from hotlap.core.sample import MAX_EVENTS, Sample
from hotlap.probe import describe as facts
from hotlap.probe.events import EVENTS
from hotlap.probe.frameworks import adapters
from hotlap.probe.gpu import GpuTrace
from hotlap.probe.hooks import environments as on_environments
from hotlap.probe.hooks import generic
from hotlap.probe.hooks import patching as hooks
from hotlap.probe.hooks import torch as on_torch
from hotlap.probe.sampler import Sampler
from hotlap.probe.usage import Usage, threads
from hotlap.record.run import KERNELS, STACKS, TRACED, Recorded, Run, append_line

PATIENCE = 120.0  # seconds that a script is given to begin to learn; then it is measured as it is
PROBE = "HOTLAP_PROBE"  # environment variable: where a worker process finds the run
_finder: hooks.Finder | None = None


class Enough(BaseException):
    """Enough has been measured."""


def install() -> None:
    """Hook what is imported, and what will be. Without a started timeline the hooks do nothing."""
    global _finder
    if _finder is None:
        _finder = hooks.Finder(EVENTS, adapters.with_frameworks(generic.PATCHES))
        _finder.install()
        on_environments.see_own_environments(EVENTS)
        os.register_at_fork(after_in_child=_forked)


def see_workers() -> None:
    """Python processes that this one starts from now on run `site/sitecustomize.py`."""
    folder = str(Path(__file__).with_name("site"))
    paths = os.environ.get("PYTHONPATH", "")
    if folder not in paths.split(os.pathsep):
        os.environ["PYTHONPATH"] = folder + (os.pathsep + paths if paths else "")


class Recorder:
    """The script's own windows: warm-up until learning has begun and `warmup` windows more, one traced, then measured ones."""

    def __init__(self, run: Run, spec: dict[str, Any]) -> None:
        self.run, self.spec = run, spec
        self._left = spec["warmup"]
        self._learning = False
        self._patience = PATIENCE
        self._walls: list[int] = []
        self._rested = 0
        self._traced = False
        self._gpu: GpuTrace | None = None
        self._pid = os.getpid()
        self._usage = Usage()
        self._ended = False
        self._facts: dict[str, Any] = {}
        self.sampler = Sampler(EVENTS.moment, spec["period"]) if spec["sampler"] else None

    def begin(self) -> None:
        """Start measuring this thread; worker processes that start from now on report too."""
        EVENTS.start(self.write)
        os.environ[PROBE] = json.dumps({"run": self.spec["run"], "origin": EVENTS.origin})
        see_workers()

    def end(self) -> dict[str, Any]:
        """Stop measuring; what the header of the record should say."""
        if self.sampler:
            self.sampler.close()
        self._ended = True
        EVENTS.stop()
        self._usage.close()
        os.environ.pop(PROBE, None)
        found: dict[str, Any] = {
            "usage": {"peak_rss": machine.peak_rss(), "gpu_busy": self._gpu.busy if self._gpu else None},
            "threads": threads(),
            "types": _types(),
            "notes": hooks.NOTES,
            "facts": {**self._facts, "gemm_rate": facts.gemm_rate()},
        }
        if self.sampler:
            found |= {"hot_lines": self.sampler.hottest(), "hot_functions": self.sampler.functions()}
            found["own_lines"] = self.sampler.own_lines()
            found["sampler_seconds"] = self.sampler.seconds
            found["sampler_period"] = self.spec["period"]
            self._save(STACKS, self.sampler.stacks())
            self._save(facts.SOURCES, facts.sources(self.sampler))
        return found

    def write(self, sample: Sample) -> None:
        if os.getpid() != self._pid:
            return
        sample.counts |= self._usage.since()
        phase = "traced" if sample.events else "measured" if self._warm else "warmup"
        if sample.events:
            on_torch.watch_reads(False)
            with suppress(Exception):  # strange objects must never be the script's trouble
                self._facts = facts.facts()
            if self._gpu:
                sample.gpu = self._gpu.end(sample)
                self._save(KERNELS, self._gpu.spans[:MAX_EVENTS])
            self._save(TRACED, {"start": sample.start, "end": sample.start + sample.wall})
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
            self._traced = True
            self._gpu = GpuTrace.begin(EVENTS.origin)
            on_torch.watch_reads(True)
            EVENTS.trace()
        elif self._warm and self.sampler:
            self.sampler.resume()
        if not self._ended and self._is_enough():  # again and again, should the script catch it
            raise Enough
        if phase == "measured" and sample.own.get(STEP) and not self._ended:
            self._begin_rest(self.spec["rest"] * sample.wall * 1e-9)

    def _begin_rest(self, seconds: float) -> None:
        if EVENTS.restless or seconds <= 0:
            return
        EVENTS.rest(seconds, self._write_rest)
        if self.sampler:
            self.sampler.pause()

    def _write_rest(self, sample: Sample) -> None:
        if os.getpid() != self._pid:
            return
        self._usage.since()
        self._append("bare", sample)
        self._rested += sample.wall
        if self.sampler and not self._ended:
            self.sampler.resume()
        if not self._ended and self._is_enough():
            raise Enough

    def _append(self, phase: str, sample: Sample) -> None:
        try:
            self.run.append(Recorded(phase, sample, machine.rss(), machine.gpu_memory()))
        except RecordError as problem:  # not the script's fault: it is stopped as if enough had been measured
            if not self._ended:
                print(f"hotlap: {problem}", file=sys.stderr)
                raise Enough from problem

    @property
    def _warm(self) -> bool:
        return self._learning and self._left <= 0

    def _is_enough(self) -> bool:
        """As many windows as asked for, late warm-up not counted; or as much time."""
        seconds, wanted = self.spec["seconds"], self.spec["iterations"]
        if seconds is not None:
            return bool(sum(self._walls) + self._rested >= seconds * 1e9)
        if len(self._walls) < wanted:
            return False
        from hotlap.core import stats

        steady = len(self._walls) - stats.warmup_end(self._walls)
        return bool(steady >= wanted or len(self._walls) >= 2 * wanted + 10)

    def _save(self, name: str, content: Any) -> None:
        with suppress(OSError):
            (self.run.path / name).write_text(json.dumps(content))


def _types() -> dict[str, str]:
    """Number formats that were seen: of observations, of what networks get, and of their parameters."""
    found = dict(EVENTS.types)
    if torch := sys.modules.get("torch"):
        found["default"] = str(torch.get_default_dtype()).removeprefix("torch.")
    return found


# -- worker processes --

_worker: "Worker | None" = None  # kept: multiprocessing finds it by a weak reference


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
        sample.counts |= self._usage.since()
        events, sample.events = sample.events, []
        self._seen = self._seen or bool(sample.counts.get(ENV_STEPS)) or any(FORWARDS in name for name in sample.counts)
        if not self._seen:
            EVENTS.trace()
            return
        if not self._traced:
            self._events = [*self._events, *events][-20_000:]
            EVENTS.trace()
            with suppress(OSError, ValueError):  # until the script's own traced window is over, nobody knows which spans
                span = json.loads((self._folder / TRACED).read_text())
                sample.events = [e for e in self._events if span["start"] <= e[1] <= span["end"]]
                self._traced, self._events = True, []
        used = threads()
        sample.counts |= {"threads": used.get("torch", 1), "cv2_threads": used.get("cv2", 0)}
        with suppress(OSError):  # the folder is gone, or full: never the user's trouble
            self._path.parent.mkdir(exist_ok=True)
            append_line(self._path, Recorded("train", sample, machine.rss()))

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
        told = json.loads(os.environ[PROBE])
        if (folder := Path(told["run"])).is_dir():
            install()
            _worker = Worker(folder, told["origin"])


def _forked() -> None:
    """A process that the script forked has all its hooks, and must not go on writing the script's own windows."""
    was_measured, EVENTS.inside, EVENTS.active = EVENTS.active, True, False
    if was_measured:
        become_worker()
