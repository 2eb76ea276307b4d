"""Environments in worker processes, over shared memory.

Each worker steps some of the rows with an engine of its own (`serial.py`) and writes into the same arrays that the parent
reads: only a few bytes per step go through a socket (or, to see what that is worth, everything: `transport.py`). Workers are
fresh interpreters, neither forked (no lock or thread of the parent comes along) nor importing the parent's main module.
The memory has no name and goes away with its last process; workers end when their parent does. The results do not depend on
how rows are split over workers.
"""

import ctypes
import faulthandler
import io
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import EnvFailed
from hotlap.envs.buffers import Arrays, nbytes
from hotlap.envs.serial import SerialEngine
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Options
from hotlap.envs.transport import TRANSPORTS, Place

PATIENCE = 60.0  # seconds that a step may take before its worker is called hung
STARTING = 10  # times as long for making environments and for their first reset
KILL_AFTER = 2.0  # seconds that a worker has to exit before it is killed
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
STEP, FAILED, MASKED, UNMASKED = b"s", b"!", b"m", b"u"


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    stack: Any  # the file into which it writes its stack when asked where it hangs
    index: int
    rows: slice
    first: int  # of its environments
    group: int
    open: bool = False  # whether it works on a command


class WorkerEngine:
    """Rows split over worker processes, in `groups` that step apart from each other."""

    compiled = False

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        kind: type[SerialEngine],
        spec: EnvSpec,
        rows: int,
        depth: int,
        workers: int,
        groups: int = 1,
        patience: float = PATIENCE,
        transport: str = "shared",
    ) -> None:
        self.identity = name
        self._transport = TRANSPORTS[transport]
        self.restores = kind.restores
        self.masked = spec.masked  # others' environments tell in `reset` whether they give masks
        self.num_rows = rows
        self._kind, self._spec = kind, spec
        self.workers = workers
        self.patience = patience
        memory = _memory(nbytes(spec, rows, depth) + 8 * workers)
        block = np.frombuffer(mmap.mmap(memory.fileno(), 0), np.uint8)
        self.arrays = Arrays(spec, rows, depth, block[: nbytes(spec, rows, depth)])
        self._at = block[nbytes(spec, rows, depth) :].view(np.int64)  # the environment each worker is stepping
        self._poll = select.poll()
        self._by_fd: dict[int, _Worker] = {}
        self._workers: list[_Worker] = []
        self._ended: dict[int, int] = {}  # by group: episodes that ended in the step under way
        self._left: dict[int, int] = {}  # by group: workers that have not ended that step
        self._slot: dict[int, int] = {}  # by group: where its results go
        envs = rows // spec.agents
        bounds = [envs * i // workers * spec.agents for i in range(workers + 1)]
        try:
            for i in range(workers):
                setup = {"name": name, "make": make, "kind": kind, "spec": spec, "rows": rows, "depth": depth}
                setup |= {"index": i, "begin": bounds[i], "end": bounds[i + 1], "path": sys.path, "transport": transport}
                self._launch(setup, memory.fileno(), groups * i // workers)
            self._all(patience * STARTING)
        except BaseException:
            self.close()
            raise
        finally:
            memory.close()
        by_group = [[w for w in self._workers if w.group == g] for g in range(groups)]
        self.groups = [slice(members[0].rows.start, members[-1].rows.stop) for members in by_group]
        self._members = by_group

    def _launch(self, setup: dict[str, Any], memory: int, group: int) -> None:
        ours, theirs = socket.socketpair()
        stack = _memory(0)
        fds = (theirs.fileno(), memory, stack.fileno())
        mortal = threading.current_thread() is threading.main_thread()  # a thread's end would count as the parent's death
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from hotlap.envs.workers import work; work()",
                *map(str, fds),
                str(os.getpid() if mortal else 0),
            ],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=2,  # what environments print must not get into a document on stdout
            env={**ONE_THREAD, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        theirs.close()
        connection = Connection(ours.detach())
        rows = slice(setup["begin"], setup["end"])
        first = rows.start // setup["spec"].agents
        worker = _Worker(process, connection, stack, setup["index"], rows, first, group, open=True)
        self._workers.append(worker)
        self._by_fd[connection.fileno()] = worker
        self._poll.register(connection.fileno(), select.POLLIN)
        with suppress(BrokenPipeError):  # it is already dead: `wait` will say so
            connection.send_bytes(cloudpickle.dumps(setup))

    # -- commands --

    def reset(self, seeds: NDArray[np.uint64] | None, starts: Sequence[Options] | None, slot: int) -> None:
        for worker in self._workers:
            own, own_seeds = starts[self._envs(worker)] if starts else None, None if seeds is None else seeds[worker.rows]
            self._send([worker], cloudpickle.dumps(("reset", (slot, own_seeds, own))))
        replies = self._all(self.patience * STARTING)
        self.masked = any(reply[:1] == MASKED for reply in replies)
        for worker, reply in zip(self._workers, replies, strict=True):
            self._take(worker, reply[1:], slot)

    def wrong_action(self, group: int, slot: int) -> int | None:
        """The first row of a group whose action is wrong: found here, where no worker has stepped yet."""
        rows = self.groups[group]
        now = self.arrays.buffers[slot].rows(rows.start, rows.stop)
        row = self._kind.first_wrong(self._spec, self.arrays.actions[rows], now)
        return None if row is None else rows.start + row

    def start(self, group: int, slot: int) -> None:
        self._ended[group], self._left[group], self._slot[group] = 0, len(self._members[group]), slot
        for worker in self._members[group]:
            actions = self._transport.send_actions(self.arrays.actions[worker.rows])
            self._send([worker], STEP + slot.to_bytes(4, "little") + actions)

    def wait(self) -> list[tuple[int, int]]:
        """(group, how many episodes ended) of each group that has stepped."""
        if not any(worker.open for worker in self._workers):
            return []
        over: list[tuple[int, int]] = []
        while not over:
            for worker, reply in self._replies(self.patience):
                group = worker.group
                self._ended[group] += int.from_bytes(reply[1:9], "little")
                self._take(worker, reply[9:], self._slot[group])
                self._left[group] -= 1
                if not self._left[group]:
                    over.append((group, self._ended[group]))
        return over

    def _take(self, worker: _Worker, results: bytes, slot: int) -> None:
        if results:
            self._transport.take_results(results, self.arrays.buffers[slot].rows(worker.rows.start, worker.rows.stop))

    def state(self) -> dict[str, NDArray[Any]]:
        self._send(self._workers, cloudpickle.dumps(("state", ())))
        return {"envs": np.concatenate([np.load(io.BytesIO(reply), allow_pickle=False) for reply in self._all(self.patience)])}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        for worker in self._workers:
            self._send([worker], cloudpickle.dumps(("load_state", ({"envs": state["envs"][self._envs(worker)]},))))
        self._all(self.patience)

    def _envs(self, worker: _Worker) -> slice:
        """The environments of a worker."""
        return slice(worker.first, worker.first + (worker.rows.stop - worker.rows.start) // self._spec.agents)

    def close(self) -> None:
        for worker in self._workers:
            worker.connection.close()  # which tells it to end
        deadline = time.monotonic() + KILL_AFTER
        for worker in self._workers:
            try:
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.stack.close()
        self._workers = []

    # -- messages --

    def _send(self, workers: list[_Worker], command: bytes) -> None:
        for worker in workers:
            worker.open = True
            with suppress(BrokenPipeError):  # it is dead: the answer will say so
                worker.connection.send_bytes(command)

    def _all(self, patience: float) -> list[bytes]:
        """The reply of each worker, once all have replied."""
        replies: dict[int, bytes] = {}
        while len(replies) < self.workers:
            replies |= {worker.index: reply for worker, reply in self._replies(patience)}
        return [replies[i] for i in range(self.workers)]

    def _replies(self, patience: float) -> list[tuple[_Worker, bytes]]:
        """The replies that have arrived, at least one; raises if a worker failed, died or does not answer in time."""
        waited = 0.0
        while not (ready := self._poll.poll(1000 * min(1.0, patience))):
            waited += min(1.0, patience)  # not by the clock: all of us may have been stopped in between
            if waited >= patience:
                self._fail(*self._hung(patience))
        replies = []
        for fd, _ in ready:
            worker = self._by_fd[fd]
            try:
                reply = worker.connection.recv_bytes()
            except (EOFError, OSError):
                self._fail(self._dead(worker), "")
            if reply[:1] == FAILED:
                failure = json.loads(reply[1:])
                self._fail(failure["message"], failure["traceback"])
            worker.open = False
            replies.append((worker, reply))
        return replies

    def _fail(self, message: str, details: str) -> None:
        for worker in self._workers:
            worker.process.kill()
        self.close()
        raise EnvFailed(message, details)

    def _where(self, worker: _Worker) -> str:
        return f"environment {worker.first + int(self._at[worker.index])} of {self.identity}"

    def _dead(self, worker: _Worker) -> str:
        code = worker.process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"worker {worker.index} {how} while it was in {self._where(worker)}"

    def _hung(self, patience: float) -> tuple[str, str]:
        worker = next(worker for worker in self._workers if worker.open)
        worker.process.send_signal(signal.SIGUSR1)
        stack = ""
        for _ in range(20):
            time.sleep(0.05)
            written = os.pread(worker.stack.fileno(), 1 << 16, 0).decode(errors="replace")
            if written and written == stack:
                break
            stack = written
        return f"{self._where(worker)} has not answered for {patience:g} s (its stack is above)", stack


def _memory(size: int) -> Any:
    """A file without a name."""
    file = os.fdopen(os.memfd_create("hotlap"), "r+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()  # noqa: SIM115
    if size:
        os.ftruncate(file.fileno(), size)
    return file


# -- in the worker --


def work() -> None:
    """What a worker process runs: one command after another, until its parent closes the socket."""
    command, memory, stack, parent = (int(word) for word in sys.argv[1:5])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the socket
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: even if it hangs when its parent is killed
        if os.getppid() != parent:
            return
    connection = Connection(command)
    try:
        _serve(connection, memory)
    except EnvFailed as error:
        _answer(connection, FAILED + json.dumps({"message": str(error), "traceback": error.details}).encode())
    except BaseException as error:
        failure = {"message": f"a worker failed: {type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        _answer(connection, FAILED + json.dumps(failure).encode())


def _serve(connection: Connection, memory: int) -> None:
    setup = cloudpickle.loads(_ask(connection))  # what is unpickled here comes from our own parent, over a private socket
    sys.path[:] = setup["path"]
    spec, rows, depth, begin, end = (setup[name] for name in ("spec", "rows", "depth", "begin", "end"))
    block, size = np.frombuffer(mmap.mmap(memory, 0), np.uint8), nbytes(spec, rows, depth)
    transport = TRANSPORTS[setup["transport"]]
    own = transport.worker_arrays(Place(spec, rows, depth, begin, end, block[:size]))
    envs = [setup["make"]() for _ in range((end - begin) // spec.agents)]
    engine: SerialEngine = setup["kind"](setup["name"], envs, own.actions, own.buffers, begin // spec.agents)
    engine.at = block[size:].view(np.int64)[setup["index"] : setup["index"] + 1]
    slot = 0
    _answer(connection, b"ready")
    while True:
        message = _ask(connection, engine)
        if message[:1] == STEP:
            slot = transport.worker_slot(int.from_bytes(message[1:5], "little"), slot)
            transport.receive_actions(message[5:], own.actions)
            ended = engine.step(slot)
            _answer(connection, STEP + ended.to_bytes(8, "little") + transport.send_results(own.buffers[slot]))
            continue
        name, arguments = cloudpickle.loads(message)
        if name == "reset":
            asked, seeds, starts = arguments
            slot = transport.worker_slot(asked, slot)
            engine.reset(seeds, starts, slot)
            _answer(connection, (MASKED if engine.masked else UNMASKED) + transport.send_results(own.buffers[slot]))
        elif name == "state":
            packed = io.BytesIO()
            np.save(packed, engine.state()["envs"], allow_pickle=False)
            _answer(connection, packed.getvalue())
        else:
            engine.load_state(*arguments)
            transport.restored(own.buffers)
            _answer(connection, b"loaded")


def _ask(connection: Connection, engine: SerialEngine | None = None) -> bytes:
    """The next command; when the parent has closed the socket, or is gone, this process ends."""
    try:
        return connection.recv_bytes()
    except (EOFError, OSError):
        with suppress(Exception):
            if engine is not None:
                engine.close()
        sys.stdout.flush()
        os._exit(0)


def _answer(connection: Connection, message: bytes) -> None:
    with suppress(OSError):  # the parent is gone, as the next command will show
        connection.send_bytes(message)
