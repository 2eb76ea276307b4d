"""The processes that a script starts: what each of them does, in files of its own.

A process that steps environments or runs networks is a *worker*: its windows lie in `workers/PID.jsonl`, and that is all. One
that makes optimizer steps (a learner or a trial of Ray's, a process of Hogwild) is a *learner*: from its first update on it is
measured as a script is, with stages, stack samples and a description, into `learners/PID/`. `record/learners.py` joins them
when the run has ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hotlap.core import machine
from hotlap.core.counts import CV2_THREADS, ENV_STEPS, FORWARDS, SCRIPT_CPU, THREADS, UPDATES
from hotlap.core.processes import cpu_seconds
from hotlap.core.sample import Sample
from hotlap.probe.events import EVENTS
from hotlap.probe.hooks import nested
from hotlap.probe.options import ProbeOptions
from hotlap.probe.recorder import PROBE, Recorder, install
from hotlap.probe.stopping import is_of_ray, is_wanted, stop_script
from hotlap.probe.usage import Usage, threads
from hotlap.record.files import LEARNERS, TRACED, WORKERS
from hotlap.record.learner import LearnerKind, LearnerSeen, write_learner
from hotlap.record.lines import TRAIN, Recorded, append_line

MOST_SPANS = 20_000  # kept by a worker until it knows which of them the trace covers
SAVED_EVERY = 2.0  # seconds: a learner may be killed at any time, and what it has seen by then should not be lost
MOST_SAVING = 0.03  # of the time
_worker: Worker | None = None  # kept: multiprocessing finds it by a weak reference


class Worker:
    """A process that the script started. It writes its windows to a file of its own, once it has stepped or run a network."""

    def __init__(self, folder: Path, origin: int, script: int, options: ProbeOptions) -> None:
        self._path = folder / WORKERS / f"{os.getpid()}.jsonl"
        self._folder, self._script, self._options = folder, script, options
        self._learner: Learner | None = None
        self._usage = Usage()
        self._events: list[tuple[str, int, int]] = []
        self._traced = False
        self._seen = False
        nested.put_all_back()  # this process may be a fork of one that took some off
        EVENTS.start(self.write, origin, worker=True)
        EVENTS.trace()
        self._at_exit()

    def end(self) -> None:
        if self._learner:
            self._learner.finish()
        elif EVENTS.active and threading.get_ident() == EVENTS.thread:
            EVENTS.stop()

    def write(self, sample: Sample) -> None:
        if sample.counts.get(UPDATES):
            self._become_learner(sample)
            return
        sample.counts.update(self._usage.since())
        events, sample.events = sample.events, []
        self._seen = self._seen or bool(sample.counts.get(ENV_STEPS)) or any(FORWARDS in name for name in sample.counts)
        if not self._seen:
            EVENTS.trace()
            return
        if not self._traced:
            self._events = [*self._events, *events][-MOST_SPANS:]
            EVENTS.trace()
            self._keep_traced_spans(sample)
        used = threads()
        sample.counts.update({THREADS: used.get("torch", 1), CV2_THREADS: used.get("cv2", 0)})
        with suppress(OSError):  # the folder is gone, or full: never the user's trouble
            self._path.parent.mkdir(exist_ok=True)
            append_line(self._path, Recorded(TRAIN, sample, machine.rss()))

    def _keep_traced_spans(self, sample: Sample) -> None:
        """Until the traced window of who learns is over, nobody knows which spans are wanted."""
        for file in (self._folder / TRACED, *(self._folder / LEARNERS).glob(f"*/{TRACED}")):
            with suppress(OSError, ValueError):
                span = json.loads(file.read_text())
                sample.events = [e for e in self._events if span["start"] <= e[1] <= span["end"]]
                self._traced, self._events = True, []
                return

    def _become_learner(self, sample: Sample) -> None:
        try:
            self._learner = Learner(self._folder, self._script, self._options)
        except OSError:  # the folder is gone, or full: never the user's trouble
            return
        self._usage.close()
        EVENTS.hand_over(self._learner.write)
        sample.events = []
        self._learner.write(sample)

    def _at_exit(self) -> None:
        import atexit
        from multiprocessing import util

        # Processes of multiprocessing skip atexit, and forget what was to be finalized when they begin.
        util.Finalize(None, self.end, exitpriority=0)
        util.register_after_fork(self, lambda worker: util.Finalize(None, worker.end, exitpriority=0))
        atexit.register(self.end)


class Learner(Recorder):
    """A process of the script's that learns. When enough was measured, it stops the script, and itself goes on unmeasured."""

    def __init__(self, run: Path, script: int, options: ProbeOptions) -> None:
        folder = run / LEARNERS / str(os.getpid())
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, replace(options, what_if=0.0))  # nobody asks a learner that goes on
        self._run, self._script = run, script
        self._kind, self._world_size = _kind(), 1  # asked for while it trains: at its end it is disconnected
        self._script_cpu = cpu_seconds(script)
        self._saved = time.perf_counter()
        self._saving = 0.0  # seconds that the last time took

    def write(self, sample: Sample) -> None:
        now = cpu_seconds(self._script)
        if now is not None and self._script_cpu is not None:
            sample.counts[SCRIPT_CPU] = now - self._script_cpu
        self._script_cpu = now
        self._world_size = max(self._world_size, _world_size())
        if time.perf_counter() - self._saved > max(SAVED_EVERY, self._saving / MOST_SAVING):
            self._save_seen()
        super().write(sample)

    def finish(self) -> None:
        """Stop measuring, and leave what was seen."""
        if not self._ended and os.getpid() == self._pid:
            write_learner(self._folder, LearnerSeen(self._kind, self._world_size, self.end()))

    def _save_seen(self) -> None:
        if self._ended:
            return
        begin = time.perf_counter()
        if self.sampler:
            self.sampler.pause()
        with suppress(OSError):
            write_learner(self._folder, LearnerSeen(self._kind, self._world_size, self.observed()))
        self._saved = time.perf_counter()
        self._saving = self._saved - begin

    def _is_enough(self) -> bool:
        return super()._is_enough() or (bool(self._walls) and is_wanted(self._run))

    def _stop(self) -> None:
        EVENTS.active = False  # this is the end of its last window
        with suppress(OSError):
            self.finish()
        stop_script(self._run, self._script)


def _kind() -> LearnerKind:
    ray = sys.modules.get("ray")
    return LearnerKind.RAY if is_of_ray(os.getpid()) or (ray and ray.is_initialized()) else LearnerKind.PROCESS


def _world_size() -> int:
    """How many processes average their gradients: together they make one update."""
    distributed = sys.modules.get("torch.distributed")
    with suppress(Exception):
        if distributed and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_world_size())
    return 1


def become_worker() -> None:
    """Report as a worker to the run that the environment names, if there is one."""
    global _worker
    with suppress(KeyError, ValueError, TypeError, OSError):
        settings = json.loads(os.environ[PROBE])
        if (folder := Path(settings["run"])).is_dir():
            install()
            _worker = Worker(folder, settings["origin"], settings["script"], ProbeOptions(**settings["options"]))


def forked() -> None:
    """A process that the script forked has all its hooks, and must not go on writing the script's own windows."""
    was_measured, EVENTS.inside, EVENTS.active = EVENTS.active, True, False
    if was_measured:
        become_worker()
