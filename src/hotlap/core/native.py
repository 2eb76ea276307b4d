"""Compiles C sources into shared libraries, which are kept under the user's cache folder by the hash of what they depend on."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from hotlap.core.errors import KernelError

# Flags of libraries that do arithmetic. One rounds every operation as torch and NumPy do; the other adds up in any order, which
# is faster (not -ffast-math, which would change how the whole process rounds).
EXACT = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
_ANY_ORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-math-errno", "-fno-trapping-math")
REASSOCIATED = ("-std=gnu11", "-O3", "-march=native", *_ANY_ORDER, "-fPIC", "-shared")
NO_COMPILER = "no C compiler found (looked for $CC, cc, gcc, clang): install one to run the fast kernel"


def compiler() -> list[str] | None:
    """The command of the C compiler: $CC (which may have arguments), or the first of cc, gcc, clang on the path."""
    candidates = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    commands = (shlex.split(candidate) for candidate in candidates)
    return next((command for command in commands if command and shutil.which(command[0])), None)


def compiler_version(command: list[str]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]


@cache
def cpu() -> str:
    """What -march=native depends on: a cache on a shared home folder must not serve another CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def library(name: str, *dependencies: str) -> Path:
    """Where a library is kept that depends on all this."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hotlap" / "kernels" / f"{name}-{digest(*dependencies)}.so"


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def build(path: Path, what: str, cc: list[str], arguments: list[str], headers: dict[str, str] | None = None) -> None:
    """Compile a library, unless it is there. `what` names it for people; `headers` are included first."""
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            built = Path(folder) / path.name
            first: list[str] = []
            for name, text in (headers or {}).items():
                (Path(folder) / name).write_text(text)
                first += ["-include", str(Path(folder) / name)]  # a bare name is first looked up where the user is
            command = [*cc, *first, *arguments, "-o", str(built)]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise KernelError(f"{shlex.join(cc)} could not compile {what}:\n{result.stderr.strip()}")
            built.replace(path)  # atomic: two processes may build at once
    except OSError as error:
        raise KernelError(f"cannot write the kernel cache {path.parent}: {error.strerror}") from error


def optional(name: str, source: Path, flags: tuple[str, ...]) -> Any:
    """A library of one C file, built or found in the cache; None where it cannot be built, for callers with a fallback."""
    if (cc := compiler()) is None:
        return None
    texts = [path.read_text() for path in (source, *sorted(source.parent.glob("*.h")))]
    path = library(name, *texts, *flags, compiler_version(cc), cpu())
    try:
        build(path, source.name, cc, [*flags, str(source), "-lm"])
        return ctypes.CDLL(str(path))
    except (KernelError, OSError):
        return None
