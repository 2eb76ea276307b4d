"""hotlap from within a program, in a notebook for instance.

with hotlap.profile("name") as run:
    model.learn(10_000)
run.show()
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.core.errors import UsageError
from hotlap.launch.profile import create_run, with_learners
from hotlap.probe.events import EVENTS
from hotlap.probe.options import ProbeOptions
from hotlap.probe.recorder import Recorder, install
from hotlap.record import run as records
from hotlap.record.header import Status
from hotlap.record.machine import this_machine
from hotlap.record.networks import NetComparison
from hotlap.record.run import Run

if TYPE_CHECKING:
    from torch import nn


class ShownRun(Run):
    """A run that can be printed."""

    def show(self, breakdown: bool = True) -> None:
        """Print the report."""
        from hotlap.report.show import show_run

        show_run(records.load(self.path), breakdown)

    def __repr__(self) -> str:
        return f"<hotlap {self.header.verb} of {self.header.target}: {self.header.status}, {self.path}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the stages, not the record."""
        from hotlap.report import cell
        from hotlap.report.show import noun_of, report_of

        return cell.render(report_of(noun_of(records.load(self.path))))


class ShownNets(NetComparison):
    """Networks side by side, that can be printed."""

    def show(self) -> None:
        from hotlap.report.show import show_nets

        show_nets(NetComparison(**vars(self)))


def load(path: str | Path) -> ShownRun:
    """Read a record. `path` is a run folder, a run's id, or "latest"."""
    run = records.load(path)
    return ShownRun(run.path, run.header, run.lines, run.workers)


@contextmanager
def profile(
    name: str = "notebook", out: Path | str | None = None, warmup: int = 2, lines: bool = True, what_if: bool = True
) -> Iterator[ShownRun]:
    """Profile the training that runs inside the block, on this thread and in worker processes started there.

    The first `warmup` windows after learning has begun are left out. `lines` samples which lines burn the time; `what_if`
    measures afterwards, for up to 4 seconds, what changes would cost. Then `run.show()` prints the report; `hotlap report` too.
    """
    if EVENTS.active:
        raise UsageError("a profile is already being made in this process")
    created = create_run(name, {"script": name}, this_machine(), Path(out) if out else None)
    run = ShownRun(created.path, created.header)
    install()
    recorder = Recorder(
        run.path.resolve(),
        ProbeOptions(iterations=math.inf, warmup=warmup, sampler=lines, what_if=ProbeOptions.what_if if what_if else 0.0),
    )
    recorder.begin()
    status, error = Status.DONE, None
    try:
        yield run
        recorder.measure_what_if()
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
        raise
    except BaseException as problem:
        status, error = Status.FAILED, f"{type(problem).__name__}: {problem}"
        raise
    finally:
        run.finish(status, error=error, **with_learners(run.path, recorder.end()))


def compare_nets(
    nets: "Mapping[str, nn.Module]",
    batch: int = 256,
    input_shape: tuple[int, ...] | None = None,
    make_input: Callable[[int], Any] | None = None,
    rounds: int = 30,
) -> ShownNets:
    """Time networks against each other. The input is random numbers of `input_shape`, or what `make_input(batch)` gives."""
    from hotlap.experiment import networks

    return ShownNets(**vars(networks.compare_nets(nets, batch, input_shape, make_input, rounds)))
