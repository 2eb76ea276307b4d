"""What the standard library lacks of Linux: namespaces, mounts, prctl; and the processes that descend from one.

Standard library only. Where a call is not allowed it raises `OSError` with the kernel's reason.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

IS_LINUX = sys.platform == "linux"

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    *(0x1, 0x2, 0x4, 0x8),
    *(0x20, 0x1000, 0x4000, 0x40000),
)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
# Processes that clean up shared memory once those who used it are gone. They end by themselves when their pipes close.
_CLEANERS = (b"resource_tracker", b"torch_shm_manager")

_libc = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None


def _call(name: str, *arguments: object) -> None:
    if _libc is None:
        raise OSError(38, f"{name}: not on this system")
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _call("unshare", ctypes.c_int(flags))


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    encoded = [os.fsencode(text) if text is not None else None for text in (source, target, kind, data)]
    _call("mount", encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])


def prctl(option: int, value: int) -> None:
    _call("prctl", ctypes.c_int(option), *(ctypes.c_ulong(number) for number in (value, 0, 0, 0)))


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children, whatever they did to get away."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when its parent dies; at once if it is dead already. `parent` 0: one outside the namespace."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def new_user_namespace() -> None:
    """All rights over new namespaces, and none over anything else. The user and the group stay what they are."""
    user, group = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    prctl(_PR_SET_DUMPABLE, 1)  # the change of rights cleared it, and with it the way to our own /proc entries
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


# -- descendants --


def descendants(root: int) -> list[int]:
    """All living processes that descend from this one."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, parent = _state_and_parent(int(entry.name))
                if state not in "ZX":
                    children.setdefault(parent, []).append(int(entry.name))
    descendants, waiting = [], [root]
    while waiting:
        born = children.get(waiting.pop(), [])
        descendants += born
        waiting += born
    return descendants


def _state_and_parent(pid: int) -> tuple[str, int]:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[1])


def signal_all(root: int, number: int, spared: frozenset[int] = frozenset()) -> None:
    """Signal every descendant; those that are born meanwhile too."""
    signalled: set[int] = set(spared)
    while fresh := [pid for pid in descendants(root) if pid not in signalled]:
        for pid in fresh:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        signalled.update(fresh)


def kill_all(root: int, patience: float = 2.0) -> None:
    """Kill every descendant. They are stopped first, so that none can be born while others die.

    Those that clean up shared memory are given a moment to do so.
    """
    cleaners = frozenset(pid for pid in descendants(root) if _is_cleaner(pid))
    signal_all(root, signal.SIGSTOP, cleaners)
    for pid in cleaners:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + patience
    while left := descendants(root):
        late = time.monotonic() > deadline
        for pid in left:
            if late or pid not in cleaners:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        reap()
        time.sleep(0.005)
        if time.monotonic() > deadline + patience:  # in the kernel, and not to be had
            break
    reap()


def reap() -> dict[int, int]:
    """Exit codes of children that have ended, by process; those of signals are negative."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            ended[pid] = exit_code(status)
    return ended


def exit_code(status: int) -> int:
    """As `subprocess` has it: the number of a signal, negative. `os.waitstatus_to_exitcode` refuses stopped children."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _is_cleaner(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(name in command for name in _CLEANERS)
