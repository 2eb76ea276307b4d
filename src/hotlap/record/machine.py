"""The machine that a run was made on."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotlap.core import machine
from hotlap.core.words import Word
from hotlap.record import codec


class PythonChoice(Word):
    """Why this Python ran a script."""

    FLAG = "flag"  # --python
    VIRTUAL_ENV = "virtual environment"  # the active one
    CONDA = "conda environment"
    PATH = "path"
    OWN = "own"  # hotlap's: there is no other


@dataclass(frozen=True)
class Gpu:
    name: str = "unknown"
    memory: int | None = None  # bytes
    driver: str | None = None


@dataclass(frozen=True)
class Limits:
    """Of the container: its cgroup."""

    cpus: float | None = None
    memory: int | None = None  # bytes


@dataclass(frozen=True)
class Machine:
    """No host name, user name or path: records are meant to be shared."""

    cpu: str | None = None
    cores: int = 1
    usable_cores: float = 1.0
    cgroup: Limits = field(default_factory=Limits)
    load: tuple[float, ...] = ()  # before the run: of the last 1, 5 and 15 minutes
    memory: int = 0  # bytes
    memory_available: int = 0
    gpus: tuple[Gpu, ...] = ()
    system: str | None = None
    python: str | None = None  # that ran a script, or hotlap's own
    python_path: str | None = None  # of a script: from the working folder, from home (~), or its last parts
    python_choice: PythonChoice | None = None
    compiler: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)
    commit: str | None = None  # of the working folder, with "+" if files differ from it

    @property
    def memory_limit(self) -> int:
        """Bytes that a process may use: the container's limit, or all there is."""
        return min(self.memory, self.cgroup.memory) if self.cgroup.memory and self.memory else self.cgroup.memory or self.memory

    @property
    def is_busy(self) -> bool:
        """Whether more was going on before the run than the cores can do."""
        return bool(self.load) and self.load[0] > self.usable_cores


def this_machine() -> Machine:
    return codec.from_json(Machine, machine.describe(), "this machine")
