"""Sees what a script really does outside of its own files, through Python's audit events, before it happens.

An audit hook is called for every event of the interpreter, every `id()` among them, so core.c passes on those in a table, all
of them rare and slow; without core.c Python looks them up there. Each is judged by the stack that led to it:

- the innermost frame of user code is to blame, and named by file and line;
- what a library does of its own accord is not the user's doing: torch starts a compiler, matplotlib looks for fonts. The
  library that user code calls directly decides: the standard library and clients (`requests`) do as they are told, all others
  are held to account only for talking to other machines;
- multiprocessing and Ray start processes and connect to them: that is how training is spread.

Database clients and trackers that connect from C or in threads of their own are seen by wrapping the function that begins it.
C++ code that opens sockets by itself (gRPC, ZeroMQ) is not seen.

Standard library only.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from hotlap.probe import core
from hotlap.probe.sampler import is_users, shorten
from hotlap.record import effects
from hotlap.record.effects import Effect, EffectKind

VARIABLE = "HOTLAP_EFFECTS"  # environment variable: where to write, and which kinds to refuse

_CLIENTS = {"requests", "urllib3", "httpx", "aiohttp", "websockets", "websocket", "paramiko", "boto3", "botocore", "tweepy"}
_DATABASES = {"psycopg", "psycopg2", "pymongo", "redis", "pymysql", "MySQLdb", "mysql", "asyncpg", "sqlalchemy", "peewee"}
_DATABASES |= {
    "pyodbc",
    "cx_Oracle",
    "oracledb",
    "cassandra",
    "elasticsearch",
    "influxdb",
    "influxdb_client",
    "clickhouse_driver",
}
TRACKERS = {"wandb", "mlflow", "neptune", "comet_ml", "clearml", "swanlab"}
_SPREADERS = {"multiprocessing", "concurrent", "ray", "torch", "torchrl", "jax", "dask", "distributed", "mpi4py"}
_FILE_MODULES, _PROGRAM_MODULES = {"os", "shutil", "pathlib"}, {"os", "subprocess", "pty", "asyncio", "pexpect", "sh"}
_STANDARD: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())  # 3.10 on; before, by path

_READING = {"nvidia-smi", "hostname", "uname", "lscpu", "free", "which", "nproc", "date", "whoami", "true"}
_READING_GIT = {"rev-parse", "describe", "status", "log", "diff", "show"}
_SHELL = set("|&;<>`$\n")


class RerunRefused(BaseException):
    """The script does what a scratch cannot contain. No `except Exception` of the script's may swallow it."""


class Watcher:
    """Judges audit events. `refuse` are the kinds that are stopped before they happen."""

    def __init__(self, file: str, refuse: tuple[EffectKind, ...], since: float) -> None:
        self._file, self._refuse, self._since = file, refuse, since
        self._record = os.path.dirname(file)  # noqa: PTH120
        self._seen: set[tuple[str, str, int]] = set()
        self._busy = threading.local()
        self._servers: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._temporary = tuple({os.path.realpath(path) for path in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")})
        self._home = os.path.realpath(os.getcwd())  # noqa: PTH109
        self.refused: Effect | None = None
        self.judges: Mapping[str, Callable[[tuple[Any, ...], FrameType | None], None]] = {
            "sqlite3.connect": self._on_sqlite,
            "socket.bind": self._on_bind,
            "socket.connect": self._on_connect,
            "socket.sendto": self._on_connect,
            "socket.getaddrinfo": self._on_lookup,
            "os.remove": self._on_files,
            "os.rmdir": self._on_files,
            "os.rename": self._on_files,
            "subprocess.Popen": self._on_program,
            "os.system": self._on_program,
            "os.exec": self._on_program,
            "os.posix_spawn": self._on_program,
            "os.spawn": self._on_program,
            "pty.spawn": self._on_program,
        }

    def install(self) -> None:
        judges = self.judges

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in judges:
                self._judge(event, arguments, sys._getframe(1))

        if core.audit is None:
            sys.addaudithook(hook)
        else:
            core.audit(tuple(event.encode() for event in judges), hook)
            atexit.register(core.audit, (), None)

    def _judge(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self.judges[event](arguments, frame)
        except Exception:  # strange arguments are the script's business, not ours
            return
        finally:
            self._busy.now = False

    # -- events --

    def _on_sqlite(self, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
        blame = Blame.of(frame)
        if blame is None or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        name = os.fsdecode(arguments[0])
        harmless = name in ("", ":memory:") or (name.startswith("file:") and ("memory" in name or "mode=ro" in name))
        self.note(blame, EffectKind.HARMLESS if harmless else EffectKind.DATABASE_FILE, _file_name(name))

    def _on_bind(self, arguments: tuple[Any, ...], _: FrameType | None) -> None:
        self._servers.add(arguments[0])

    def _on_connect(self, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
        connection, address = arguments[0], arguments[1]
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return  # a socket of this machine's file system
        self._on_address(str(address[0]), int(address[1]), frame)

    def _on_lookup(self, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
        host, port = arguments[0], arguments[1]
        blame = Blame.of(frame)
        if host and blame and blame.library:  # a client looks up where to connect to; user code may ask for a name
            self._on_address(os.fsdecode(host), int(port or 0), frame)

    def _on_address(self, host: str, port: int, frame: FrameType | None) -> None:
        blame = Blame.of(frame)
        if blame is None or blame.passes(_SPREADERS) or blame.package in TRACKERS:
            return
        what = f"{host}:{port}" if port else host
        if not _is_local(host):
            self.note(blame, EffectKind.DATABASE if blame.package in _DATABASES else EffectKind.NETWORK, what)
        elif blame.obeys(_CLIENTS | _DATABASES):
            kind = EffectKind.DATABASE if blame.package in _DATABASES else EffectKind.NETWORK
            self.note(blame, EffectKind.HARMLESS if self._is_own(port) else kind, what)

    def _is_own(self, port: int) -> bool:
        """Whether a server of this very process listens there."""
        for server in list(self._servers):
            with suppress(OSError, IndexError, TypeError):
                if server.getsockname()[1] == port:
                    return True
        return False

    def _on_files(self, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
        blame = Blame.of(frame)
        if (
            blame is None
            or not blame.obeys(_FILE_MODULES, only=True)
            or not isinstance(arguments[0], (str, bytes, os.PathLike))
        ):
            return
        folder = arguments[2] if len(arguments) > 2 else arguments[-1]
        path = os.fsdecode(arguments[0])
        if isinstance(folder, int) and folder >= 0:
            path = os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), path)  # noqa: PTH118
        path = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))  # noqa: PTH118, PTH119, PTH120
        if f"{path}/".startswith(f"{self._record}/"):
            return
        try:
            was_there = os.lstat(path).st_ctime < self._since
        except OSError:
            return  # nothing is there
        below = [root for root in self._temporary if path.startswith(f"{root}/")]
        is_temporary = below and not path.startswith(f"{self._home}/")
        self.note(blame, EffectKind.FILES if was_there and not is_temporary else EffectKind.HARMLESS, _file_name(path))

    def _on_program(self, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
        blame = Blame.of(frame)
        if blame is None or blame.passes(_SPREADERS) or not blame.obeys(_PROGRAM_MODULES, only=True):
            return
        words = _command_words(arguments)
        self.note(
            blame, EffectKind.HARMLESS if only_reads(words) else EffectKind.PROGRAM, _file_name(words[0]) if words else ""
        )

    # -- notes --

    def note(self, blame: Blame, kind: EffectKind, what: str) -> None:
        """Write it down, once for each line of code; and stop the script if it must not do this."""
        effect = Effect(kind, blame.where, what)
        key = (kind.value, blame.where, 0)
        if key not in self._seen and len(self._seen) < effects.MOST:
            self._seen.add(key)
            with suppress(OSError):  # the folder is gone, or full
                effects.append(self._file, effect)
        if kind in self._refuse:
            self.refused = self.refused or effect
            raise RerunRefused(message(effect))


class Blame:
    """Whose doing an event is: the innermost line of user code, and the library code that it called."""

    def __init__(self, frame: FrameType, between: list[FrameType]) -> None:
        self.where = f"{shorten(frame.f_code.co_filename)}:{frame.f_lineno}"
        self.modules = [str(inner.f_globals.get("__name__", "")) for inner in between]
        self._is_standard = bool(between) and _is_standard(between[-1])

    @classmethod
    def of(cls, frame: FrameType | None) -> Blame | None:
        """None if no user code led to it, or if it imports a library, which does what it likes."""
        between: list[FrameType] = []
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib"):
                return None
            if is_users(file):
                return cls(frame, between)
            if not str(frame.f_globals.get("__name__", "")).startswith("hotlap."):
                between.append(frame)
            frame = frame.f_back
        return None

    @property
    def library(self) -> str:
        """The module that user code called directly; nothing if it made the call itself."""
        return self.modules[-1] if self.modules else ""

    @property
    def package(self) -> str:
        return self.library.partition(".")[0]

    def passes(self, packages: set[str]) -> bool:
        """Whether the call went through one of these."""
        return any(module.partition(".")[0] in packages for module in self.modules)

    def obeys(self, packages: set[str], only: bool = False) -> bool:
        """Whether user code asked for it: by itself, through one of these or, unless `only` these, the standard library."""
        return not self.modules or self.package in packages or (not only and self._is_standard)


def _is_standard(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return name in _STANDARD or (not _STANDARD and "-packages" not in frame.f_code.co_filename)


def _is_local(host: str) -> bool:
    host = host.partition("%")[0]
    return host in ("localhost", "::1", "::", "0.0.0.0", "") or host.startswith("127.") or host == socket.gethostname()


def _file_name(path: str) -> str:
    return os.path.basename(path.rstrip("/"))[:80]  # noqa: PTH119


def _command_words(arguments: tuple[Any, ...]) -> list[str]:
    """The words of a command line, of the first argument that looks like one; of a shell's, what it is to run."""
    command = arguments[1] if len(arguments) > 1 and arguments[1] else arguments[0]
    if isinstance(command, (str, bytes, os.PathLike)):
        return _split(os.fsdecode(command))
    words = [os.fsdecode(word) for word in command if isinstance(word, (str, bytes, os.PathLike))]
    if len(words) == 3 and _file_name(words[0]) in ("sh", "bash") and words[1] == "-c":
        return _split(words[2])
    return words


def _split(command: str) -> list[str]:
    return ["sh"] if _SHELL.intersection(command) else command.split()


def only_reads(words: list[str]) -> bool:
    """Whether a program is known to change nothing."""
    if not words:
        return False
    name, rest = _file_name(words[0]), [word for word in words[1:] if not word.startswith("-")]
    return name in _READING or (name == "git" and bool(rest) and rest[0] in _READING_GIT)


REASONS = {
    EffectKind.DATABASE: "writes to a database",
    EffectKind.DATABASE_FILE: "writes to a database",
    EffectKind.NETWORK: "talks to other machines",
    EffectKind.FILES: "deletes or moves files",
    EffectKind.PROGRAM: "starts other programs",
    EffectKind.TRACKER: "reports to a tracking service",
    EffectKind.DEVICE: "drives a machine",
}


def message(effect: Effect) -> str:
    what = f" ({effect.what})" if effect.what else ""
    return f"{effect.where} {REASONS[effect.kind]}{what}, which a scratch does not contain: --rerun allows it"


# -- begin --


def variable(folder: str, refuse: tuple[EffectKind, ...]) -> dict[str, str]:
    """The environment in which a child watches itself."""
    file = Path(folder) / effects.FILE
    with suppress(OSError):  # the disk is full
        file.touch()
    settings = {"file": str(file), "refuse": [kind.value for kind in refuse], "since": time.time()}
    return {VARIABLE: json.dumps(settings)}


def install() -> Watcher | None:
    """Watch this process, if the environment says so."""
    try:
        settings = json.loads(os.environ[VARIABLE])
        refuse = tuple(EffectKind(kind) for kind in settings["refuse"])
        watcher = Watcher(settings["file"], refuse, float(settings["since"]))
    except (KeyError, ValueError, TypeError):
        return None
    watcher.install()
    return watcher
