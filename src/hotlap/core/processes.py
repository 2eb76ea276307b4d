"""Which processes are alive (from /proc; elsewhere by asking psutil, if it is installed), and what they have used."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def started(pid: int) -> float | None:
    """When a process began, in seconds since 1970; None if it is gone, or a zombie."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if state == "Z":
            return None
        return _boot_time() + int(rest[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return _ask_psutil(pid) if not Path("/proc/self/stat").exists() else None


def is_alive(pid: int, since: float) -> bool:
    """Whether a process that began at this time is alive. A process number used again is another process."""
    begin = started(pid)
    return begin is not None and abs(begin - since) < 1


def cpu_seconds(pid: int) -> float | None:
    """CPU time that a process has used; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None


def _boot_time() -> float:
    lines = Path("/proc/stat").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("btime")).split()[1])


def _ask_psutil(pid: int) -> float | None:
    try:
        import psutil

        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except Exception:  # not installed, or no such process
        return None
