"""Where a script is run again: in a scratch, so that what it writes lands there and goes with it.

OVERLAY: all writable file systems of this machine are seen through overlays, in a mount namespace of the run's own
(`overlay.py`). Nothing is copied, absolute paths are contained too, and the mounts vanish with the last process.
COPY: where the kernel does not allow that, a copy of the project (`copying.py`); a script that writes outside it is stopped
with the path (`guard.py`). IN_PLACE: the user's own folder, as `profile` does it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hotlap.core import processes
from hotlap.core.errors import UsageError
from hotlap.core.words import Word
from hotlap.launch import linux
from hotlap.launch.support import supported

PREFIX = "hotlap-scratch-"


class ScratchKind(Word):
    AUTO = "auto"
    OVERLAY = "overlay"
    COPY = "copy"
    IN_PLACE = "in-place"


class Containment(Word):
    """What keeps a child's processes from outliving hotlap."""

    PID_NAMESPACE = "pid namespace"  # the kernel kills all that is in it
    SUBREAPER = "subreaper"  # hotlap's supervisor kills all that descends from it
    PROCESS_GROUP = "process group"  # not on Linux: what leaves the group gets away


def pick(kind: ScratchKind = ScratchKind.AUTO) -> ScratchKind:
    """The kind of scratch that this machine can give: an overlay where it can, else a copy."""
    support = supported()
    if kind is ScratchKind.OVERLAY and not support.overlay:
        raise UsageError(f"--scratch overlay: not possible here ({support.reason}); use --scratch copy")
    if kind is ScratchKind.AUTO:
        return ScratchKind.OVERLAY if support.overlay else ScratchKind.COPY
    return kind


def containment(wanted: bool = True) -> Containment:
    """How a child is contained here; `wanted` says whether it may have a PID namespace."""
    if not linux.IS_LINUX:
        return Containment.PROCESS_GROUP
    return Containment.PID_NAMESPACE if wanted and supported().pid_namespace else Containment.SUBREAPER


# -- folders --


def roots() -> list[Path]:
    """Where scratch folders may lie; more than one, because no overlay can keep its changes inside of what it covers."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    candidates = [Path(tempfile.gettempdir()), Path("/var/tmp"), cache / "hotlap"]
    return [path for path in dict.fromkeys(candidates) if _is_usable(path)]


def _is_usable(path: Path) -> bool:
    with suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
        return os.access(path, os.W_OK | os.X_OK)
    return False


def create_scratch(spread: bool = False) -> Path:
    """A folder that belongs to this process: its name says so, and the next hotlap removes it once this one is gone.

    `spread`: one of this name under every root.
    """
    pid = os.getpid()
    began = processes.started(pid) or 0.0
    path = roots()[0] / f"{PREFIX}{os.getuid()}-{pid}-{began:.0f}-{secrets.token_hex(4)}"
    path.mkdir(mode=0o700)
    for other in siblings(path) if spread else ():
        with suppress(OSError):
            other.mkdir(mode=0o700)
    return path


def remove_folder(path: Path) -> None:
    """Remove it with all that is in it, also folders that nobody may read: overlayfs leaves one."""

    def retry(function: Callable[..., object], name: str, _: object) -> None:
        with suppress(OSError):
            for part in (Path(name).parent, Path(name)):
                if not part.is_symlink():
                    part.chmod(stat.S_IRWXU)
            shutil.rmtree(name, ignore_errors=True) if Path(name).is_dir() else function(name)

    shutil.rmtree(path, onerror=retry)


def remove_scratch(folder: Path) -> None:
    """A scratch's folder, and those of its name under the other roots."""
    for path in (folder, *siblings(folder)):
        if path.is_dir():
            remove_folder(path)


def siblings(folder: Path) -> list[Path]:
    """Folders of the same name under the other roots."""
    return [root / folder.name for root in roots() if root != folder.parent]


def remove_stale() -> None:
    """Scratch folders whose owners are dead: all of them were killed before they could clean up."""
    for root in roots():
        for path in root.glob(f"{PREFIX}{os.getuid()}-*"):
            try:
                pid, began = (float(part) for part in path.name[len(PREFIX) :].split("-")[1:3])
            except ValueError:
                continue
            if not processes.is_alive(int(pid), began):
                remove_folder(path)
