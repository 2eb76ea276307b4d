"""How a script is stopped once enough has been measured: by an exception, so that its `finally` blocks run.

The thread that is measured raises it itself, if it is the script's main thread. Where another process or another thread learns,
the main thread only waits, for a process, a thread, a queue or Ray: it is told by a signal, whose handler raises. SIGCONT does
nothing to a process that has no handler for it, such as one that is already ending; who sends it for another reason (a shell
that continues a job) has not left the file that says what it is about.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.record.files import LEARNERS, STOP, WORKERS

SIGNAL = signal.SIGCONT
GRACE = 2.0  # seconds that the script has to end its processes and threads itself
AGAIN = 10.0  # seconds after which a script that caught the exception is stopped again


class StopProfiling(BaseException):
    """Enough has been measured: raised in the script, so that its `finally` blocks run."""


class Waiting:
    """Waiting in Ray's C++ code, which lets no exception of a signal handler through but a KeyboardInterrupt."""

    in_ray = False
    stopped = False  # whether that exception was ours


def is_wanted(folder: Path) -> bool:
    return (folder / STOP).exists()


def stop_script(folder: Path, pid: int) -> None:
    """Ask the main thread of the script's own process to stop. Asked again, it is told again only after a while."""
    file = folder / STOP
    with suppress(OSError):
        if not file.exists() or time.time() - file.stat().st_mtime > AGAIN:
            file.touch()
            os.kill(pid, SIGNAL)


class Listener:
    """In the script's process: raises `StopProfiling` on the main thread when `stop_script` was called, here or elsewhere."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._ended = False
        self.stopped = False
        self._earlier: Any = None
        self._listens = threading.current_thread() is threading.main_thread()
        if self._listens:
            self._earlier = signal.signal(SIGNAL, self._on_signal)

    def close(self) -> None:
        self._ended = True
        if self._listens and os.getpid() == self._pid:
            with suppress(ValueError, TypeError):
                signal.signal(SIGNAL, self._earlier)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._ended or os.getpid() != self._pid or not is_wanted(self._folder):
            if callable(self._earlier):
                self._earlier(number, frame)
            return
        self.stopped = True
        threading.Thread(target=end_the_rest, args=(self._folder,), name="hotlap-ending", daemon=True).start()
        if Waiting.in_ray:
            Waiting.stopped = True
            raise KeyboardInterrupt
        raise StopProfiling


def end_the_rest(folder: Path, grace: float = GRACE) -> None:
    """The script may wait for processes and threads that go on learning, and never end: after a while, end them.

    Actors of Ray are left to Ray, which ends them when the script disconnects.
    """
    time.sleep(grace)
    for pid in _processes(folder):
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    this, main = threading.current_thread(), threading.main_thread()
    for thread in threading.enumerate():
        if thread not in (this, main) and not thread.daemon and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


def _processes(folder: Path) -> set[int]:
    """Processes of the script's that are alive: those that report to this run, and those of multiprocessing."""
    reporting = [*(folder / WORKERS).glob("*.jsonl"), *(folder / LEARNERS).glob("*")]
    pids = {int(path.stem) for path in reporting if path.stem.isdecimal() and _began_before(int(path.stem), path)}
    if processes := sys.modules.get("multiprocessing.process"):
        pids |= {pid for process in list(processes._children) if (pid := _living(process))}
    return {pid for pid in pids - {os.getpid()} if not is_of_ray(pid)}


def _living(process: Any) -> int | None:
    """The number of a process of multiprocessing that has not ended: once it has, another one may have got its number."""
    popen = process._popen
    return popen.pid if popen is not None and popen.poll() is None else None


def _began_before(pid: int, written: Path) -> bool:
    """Whether a process began before a file was written last: if not, another one has got the number of its writer."""
    with suppress(OSError, ValueError, IndexError, StopIteration):
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        began = int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
        return began <= written.stat().st_mtime + 1.0  # `btime` has whole seconds
    return False


def is_of_ray(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return command.startswith(b"ray::") or b"default_worker.py" in command


def wait_for_threads(code: int) -> None:
    """At the end of a script that was told to stop: Python would wait for its threads, perhaps for ever."""
    until = time.perf_counter() + 2 * GRACE
    while any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        if time.perf_counter() > until:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        time.sleep(0.05)
