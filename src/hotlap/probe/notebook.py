"""Measure a part of a program from within, in a notebook for instance: `with hotlap.profile("name") as run:`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.launch.script import create_run
from hotlap.launch.system import Options
from hotlap.probe.events import EVENTS
from hotlap.probe.recorder import Recorder, install
from hotlap.record.run import Run


@contextmanager
def profile(name: str = "notebook", out: Path | str | None = None, warmup: int = 2, lines: bool = True) -> Iterator[Run]:
    """Profile the training that runs inside the block, on this thread and in worker processes started there.

    The first `warmup` windows after learning has begun are left out. `lines` samples which lines burn the time. Afterwards
    `run.show()` prints the report, and `hotlap report` renders it.
    """
    if EVENTS.active:
        raise UsageError("a profile is already being made in this process")
    run = create_run(name, {"script": name}, Path(out) if out else None)
    install()
    options = Options(warmup=warmup, sampler=lines)
    spec = {"run": str(run.path.resolve()), **asdict(options), "iterations": math.inf}
    recorder = Recorder(run, spec)
    recorder.begin()
    status, error = "done", {}
    try:
        yield run
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except BaseException as problem:
        status, error = "failed", {"error": f"{type(problem).__name__}: {problem}"}
        raise
    finally:
        run.finish(status, **error, **recorder.end())
