"""What the probe saw of a script, as it is written when the script ends; and how the script ended.

The probe runs in the user's process and never reads or writes `run.json`: it appends samples (`lines.py`) and leaves an
`Outcome` in the run's folder with `write_outcome`. hotlap, which waits for the process, reads it back and completes the
record. A script that is killed leaves its samples.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.record import codec
from hotlap.record.codec import FLAT, was
from hotlap.record.effects import Effect
from hotlap.record.what_if import WhatIfCurves

OUTCOME = "outcome.json"  # in the run's folder until hotlap has read it


@dataclass(frozen=True)
class GpuActivity:
    """What the GPU did in a window of so many seconds, by the kernels and copies that torch's profiler listed."""

    seconds: float
    busy: float  # share of the window in which any kernel or copy ran: the union of their intervals
    host_wait: float  # share in which it was idle and the next kernel was not launched yet
    kernel_wait: float  # share in which it was idle although the next kernel was launched
    kernels: int = 0
    launches: int = 0  # calls of the host that started them: a CUDA graph is one
    copies: int = 0
    copy_seconds: float = 0.0
    updates: int = 0


@dataclass(frozen=True)
class Usage:
    peak_rss: int | None = None  # bytes
    gpu_busy: float | None = None  # share of the traced window, or of the run, in which a kernel ran
    gpu: GpuActivity | None = None  # None: not traced


@dataclass(frozen=True)
class HotLine:
    """A line of code and the share of the time in it: exclusive, and with what it called."""

    share: float
    stage: str
    where: str  # file:line
    function: str
    code: str = ""
    cumulative: float | None = None
    native: bool | None = None  # records of version 0.1.0 do not say


@dataclass(frozen=True)
class Net:
    """A network that is no part of another."""

    name: str
    parameters: int
    tensors: int
    layers: dict[str, int]  # kind of layer -> how many
    inputs: int | None = None
    outputs: int | None = None
    widest: int | None = None
    dtype: str = "float32"
    device: str = "cpu"


@dataclass(frozen=True)
class OptimizerInfo:
    name: str
    tensors: int
    foreach: bool | None = None
    fused: bool | None = None
    capturable: bool | None = None


@dataclass(frozen=True)
class EnvChain:
    """Environments of one make: class names from the outermost wrapper to the innermost environment."""

    chain: tuple[str, ...]
    count: int = 1
    num_envs: int | None = None  # environments in one of them, if it is a vector

    @property
    def environments(self) -> int:
        """All single environments of this make. Records of version 0.1.0 have the number in the name: "SyncVectorEnv x32"."""
        numbers = [int(name.rpartition(" x")[2]) for name in self.chain if name.rpartition(" x")[2].isdecimal()]
        return self.count * (self.num_envs or max(numbers, default=1))


@dataclass(frozen=True)
class TorchSwitches:
    anomaly: bool = False
    validate: bool = False
    threads: int | None = None
    matmul: str = "highest"


@dataclass(frozen=True)
class Description:
    """What a script is made of: looked up once, while it trains."""

    environments: tuple[EnvChain, ...] = ()
    nets: tuple[Net, ...] = ()
    optimizers: tuple[OptimizerInfo, ...] = ()
    torch: TorchSwitches | None = None
    gemm_rate: float | None = None  # floating-point operations per second of a matrix product


@dataclass(frozen=True)
class Observed:
    """Beside the samples: what was used, seen and sampled."""

    usage: Usage | None = None
    threads: dict[str, int] = field(default_factory=dict)  # of the process, of torch, of OpenCV
    types: dict[str, str] = field(default_factory=dict)  # number formats: of observations, forward inputs, the default
    notes: tuple[str, ...] = ()  # what the reader should know about packages that were seen
    description: Description | None = field(default=None, metadata=was("facts"))
    hot_lines: tuple[HotLine, ...] = ()
    hot_functions: tuple[HotLine, ...] = ()
    user_lines: tuple[HotLine, ...] = field(default=(), metadata=was("own_lines"))  # with the library code they call
    sampler_seconds: float = 0.0  # CPU time of the sampler itself
    sampler_period: float | None = None
    event_cost: float | None = None  # seconds that noting an event costs in the script's own Python
    learner_thread: str = ""  # the thread that learns and was measured, if it is not the main one
    what_if: WhatIfCurves | None = None  # None: not measured
    files_changed: tuple[str, ...] = ()  # existing files that the run overwrote or appended to
    effects: tuple[Effect, ...] = ()  # what it did outside of its own files, and calls that turned out to be harmless
    user_modules: tuple[str, ...] = ()  # files of user code that were imported when the script ended
    step_names: tuple[str, ...] = ()  # functions and methods of user code that were found to step an environment


@dataclass(frozen=True)
class Outcome:
    """How a script ended. `status` is "done", "interrupted" or "failed"."""

    status: str
    exit_code: int = 0
    error: str | None = None
    observed: Observed = field(default_factory=Observed, metadata=FLAT)


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Called in the script's process, at its end."""
    part = folder / f".{OUTCOME}.part"
    part.write_text(json.dumps(codec.to_json(outcome)))
    part.replace(folder / OUTCOME)


def read_outcome(folder: Path) -> Outcome | None:
    """What the script's process left; None if it did not get that far. The file is taken away."""
    path = folder / OUTCOME
    if not path.exists():
        return None
    outcome = codec.from_json(Outcome, codec.read(path), path)
    path.unlink()
    return outcome
