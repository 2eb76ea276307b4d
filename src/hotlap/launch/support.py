"""What this machine allows: PID namespaces, overlays. Tried out in processes that end at once.

`python -m hotlap.launch.support` prints it as JSON. It is a program of its own because only a process with one thread may
enter a user namespace, and because hotlap itself should stay where it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from hotlap.launch import linux, namespaces

_PATIENCE = 20.0  # seconds


@dataclass(frozen=True)
class Support:
    """What this machine allows."""

    pid_namespace: bool
    overlay: bool
    reason: str | None = None  # why not


@lru_cache(maxsize=1)
def supported() -> Support:
    """What this machine allows, for a script that is started from here."""
    if not linux.IS_LINUX:
        return Support(False, False, "only on Linux")
    command = [sys.executable, "-m", "hotlap.launch.support"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
        return Support(**json.loads(result.stdout))
    except (subprocess.SubprocessError, ValueError, TypeError) as error:
        return Support(False, False, f"the attempt failed: {type(error).__name__}")


def _try_pid_namespace() -> None:
    namespaces.enter_namespaces()

    def inside() -> None:
        namespaces.enter_mounts()
        namespaces.mount_proc()

    _demand(inside)


def _try_overlay() -> None:
    from hotlap.launch import overlay, scratch

    folder = scratch.create_scratch(spread=True)
    with_user_namespace = namespaces.enter_namespaces()

    def inside() -> None:
        namespaces.enter_mounts()
        here = f"{Path.cwd()}/"
        for path in overlay.mount_all(folder, (), with_user_namespace):
            if here.startswith(f"{path}/"):
                raise OSError(30, f"no overlay can cover {path}")
        os.chdir(here)
        with tempfile.TemporaryFile(dir=here):  # in the overlay: it may be a folder that cannot be copied
            pass
        namespaces.mount_proc()

    try:
        _demand(inside)
    finally:
        scratch.remove_scratch(folder)


def _demand(function: Callable[[], None]) -> None:
    if reason := _attempt(function):
        raise OSError(1, reason)


def _attempt(function: Callable[[], None]) -> str | None:
    """Run it in a child process; None if that went well, else why not."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            function()
            os._exit(0)
        except BaseException as error:
            os.write(write, (getattr(error, "strerror", None) or str(error) or type(error).__name__).encode()[:500])
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        reason = pipe.read().decode(errors="replace")
    return None if os.waitpid(pid, 0)[1] == 0 else reason or "the attempt was killed"


def main() -> None:
    no_namespace = _attempt(_try_pid_namespace)
    no_overlay = no_namespace or _attempt(_try_overlay)
    print(json.dumps(asdict(Support(no_namespace is None, no_overlay is None, no_overlay))))


if __name__ == "__main__":
    main()
