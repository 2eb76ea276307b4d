"""Which Python runs a user's script: hotlap has an environment of its own, and a script needs the one it was written for.

In this order: `--python`; the active virtual or conda environment; `python` or `python3` on the PATH; hotlap's own. What was
asked for by name must be usable; of those on the PATH the first that is.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.machine import PACKAGES
from hotlap.record.machine import Machine, PythonChoice, this_machine
from hotlap.target.target import Script, Variant

OLDEST = (3, 9)
_PATIENCE = 60.0  # seconds: an environment on a network drive takes its time
_PARTS = 3  # of a path that are shown: environment, bin, python
# Runs in any Python, however old. The working folder comes off the path: a file there may have the name of a module.
_QUESTION = """
import sys
sys.path = [folder for folder in sys.path if folder]
import json
answer = {"executable": sys.executable, "version": list(sys.version_info[:3]), "prefix": sys.prefix, "packages": {}}
try:
    from importlib import metadata
    for package in sys.argv[1:]:
        try:
            answer["packages"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
except ImportError:
    pass
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that can run scripts, and what it said about itself."""

    path: str  # as it is started
    executable: str  # what runs then: a shim may stand before it
    version: str
    prefix: str  # of its environment
    choice: PythonChoice
    packages: dict[str, str] = field(default_factory=dict)  # that matter here, with their versions

    @property
    def shown(self) -> str:
        """Its path as a record keeps it: from here, from the home folder, or the last parts; no path of this machine."""
        path, here = Path(self.executable), Path.cwd()
        if path.is_relative_to(here):
            return str(path.relative_to(here))
        home = Path(os.environ.get("HOME") or "/nonexistent")
        return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else "/".join(path.parts[-_PARTS:])


def resolve(python: str | None = None) -> Interpreter:
    """The Python that runs a script; `python` is what the user asked for, a path or a name on the PATH."""
    if python is not None:
        return _demanded(python, PythonChoice.FLAG)
    for variable, choice in (("VIRTUAL_ENV", PythonChoice.VIRTUAL_ENV), ("CONDA_PREFIX", PythonChoice.CONDA)):
        if folder := os.environ.get(variable):
            return _demanded(str(Path(folder, "bin", "python")), choice)
    for path in _on_path():
        answer = _ask(path)
        if isinstance(answer, Interpreter):
            return replace(answer, choice=PythonChoice.PATH)
    return _demanded(sys.executable, PythonChoice.OWN)


def with_interpreter(variant: Variant, python: str | None = None) -> Variant:
    """The variant, run by the Python that was asked for or is found. Systems are hotlap's own, and so is their Python."""
    if isinstance(variant.target, Script):
        return replace(variant, target=replace(variant.target, interpreter=resolve(python)))
    if python is not None:
        raise UsageError(f"--python: only for scripts; {variant.target.name} is a system, which runs in hotlap's own Python")
    return variant


def machine_of(variants: Iterable[Variant]) -> Machine:
    """This machine, with the Python and the packages that scripts among these run with."""
    machine = this_machine()
    for variant in variants:
        if isinstance(variant.target, Script) and (used := variant.target.interpreter):
            versions = {"hotlap": machine.versions["hotlap"], **used.packages}
            return replace(machine, python=used.version, versions=versions, python_path=used.shown, python_choice=used.choice)
    return machine


def asked_for(machine: Machine) -> str | None:
    """The Python that somebody named when this was recorded, if it is still where the record says."""
    if machine.python_choice is not PythonChoice.FLAG or machine.python_path is None:
        return None
    path = Path(machine.python_path).expanduser()
    return str(path) if path.exists() else None


def _on_path() -> Iterator[str]:
    return (path for name in ("python", "python3") if (path := shutil.which(name)))


def _demanded(python: str, choice: PythonChoice) -> Interpreter:
    path = shutil.which(python)
    if path is None:
        raise UsageError(f"{_words(choice, python)}: there is no program {python!r}")
    answer = _ask(os.path.abspath(path))  # noqa: PTH100 - links stay: they tell a virtual environment from its base
    if isinstance(answer, str):
        raise UsageError(f"{_words(choice, python)}: {answer}")
    return replace(answer, choice=choice)


def _words(choice: PythonChoice, python: str) -> str:
    words = {
        PythonChoice.FLAG: "--python",
        PythonChoice.VIRTUAL_ENV: "the active virtual environment (VIRTUAL_ENV),",
        PythonChoice.CONDA: "the active conda environment (CONDA_PREFIX),",
    }
    return f"{words.get(choice, '')} {python}".strip()


@cache
def _ask(path: str) -> Interpreter | str:
    """What a Python says about itself, or why it cannot be used."""
    try:
        command = [path, "-c", _QUESTION, *PACKAGES]
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        answer = json.loads(result.stdout.strip().rpartition("\n")[2])  # a .pth file may print something first
        version = tuple(answer["version"])
    except subprocess.TimeoutExpired:
        return f"it did not answer within {_PATIENCE:.0f} s"
    except (OSError, ValueError, KeyError, TypeError):
        return "it is no Python that works"
    shown = ".".join(map(str, version))
    if version < OLDEST:
        return f"it is Python {shown}; hotlap profiles scripts of Python {'.'.join(map(str, OLDEST))} or newer"
    return Interpreter(path, answer["executable"] or path, shown, answer["prefix"], PythonChoice.PATH, answer["packages"])
