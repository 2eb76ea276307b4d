"""The one way to start a target in a process of its own: pipes, signals, a scratch, and a supervisor that outlives hotlap
just long enough to clean up.

    hotlap --- supervisor --- [first process of a PID namespace] --- child: python bootstrap.py SPEC
"""

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from hotlap.core.errors import TargetFailed
from hotlap.interventions import APPLIED
from hotlap.launch import messages, scratch
from hotlap.launch.copying import projects_of
from hotlap.launch.messages import BlockDone, Message, Progress, Ready
from hotlap.launch.scratch import Containment, ScratchKind
from hotlap.launch.spec import BlockSettings, ProfileSettings, Settings, Spec
from hotlap.launch.supervisor import Order
from hotlap.probe import effects
from hotlap.record.blocks import Block
from hotlap.record.effects import CONTAINED, FILE, EffectKind, take
from hotlap.target.target import Script, Variant

_CLOSING, _TERMINATING, _KILLING = 10.0, 3.0, 15.0  # seconds for a child to end on its own, after SIGTERM, and after SIGKILL
_POLL = 0.5

Output = int | IO[Any] | None  # of a child: a file, a descriptor, subprocess.DEVNULL; None: where hotlap's own goes


class Failure(TargetFailed):
    """A child failed, or ended too soon."""


class NoAnswer(TargetFailed):
    """A child said nothing for too long."""


@dataclass(frozen=True)
class Start:
    """What to start, and how."""

    variant: Variant
    settings: Settings
    folder: Path  # of the record: the child may write there, whatever its scratch is
    scratch: ScratchKind = ScratchKind.AUTO
    log: Path | None = None  # gets all that the child prints
    stdout: Output = None  # without a log
    is_interactive: bool = False  # reads the terminal, and gets its Ctrl-C; else it has a session of its own
    rerun: bool = True  # whether a script may do what a scratch cannot contain: else it is stopped before it happens

    @property
    def python(self) -> str:
        """The script's own Python; systems run in hotlap's."""
        target = self.variant.target
        return target.interpreter.path if isinstance(target, Script) and target.interpreter else sys.executable

    @property
    def scratch_kind(self) -> ScratchKind:
        """Systems are hotlap's own: they write nothing but their record."""
        return scratch.pick(self.scratch) if isinstance(self.variant.target, Script) else ScratchKind.IN_PLACE

    @property
    def containment(self) -> Containment:
        """A script that runs in place keeps its view of the machine: a user namespace would change who owns which file."""
        in_place = isinstance(self.variant.target, Script) and self.scratch_kind is ScratchKind.IN_PLACE
        return scratch.containment(wanted=not in_place)

    @property
    def refused(self) -> tuple[EffectKind, ...]:
        """What a script must not do here."""
        if self.rerun or not isinstance(self.variant.target, Script):
            return ()
        contained = () if self.scratch_kind is ScratchKind.IN_PLACE else CONTAINED
        return tuple(kind for kind in EffectKind if kind is not EffectKind.HARMLESS and kind not in contained)

    @property
    def environment(self) -> dict[str, str]:
        watching = effects.variable(str(self.folder.resolve()), self.refused) if isinstance(self.variant.target, Script) else {}
        return {**os.environ, **watching, **self.variant.environment}


class Child:
    """A started child. As a context manager, it has ended when the block is left, with all that it started."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.containment, self.scratch = start.containment, start.scratch_kind
        self.code: int | None = None
        self._unread = self._unread_status = b""
        self._is_gone = False
        _clean_up_once()
        start.folder.mkdir(parents=True, exist_ok=True)
        inbox, tell = os.pipe()
        go: int | None = None
        self._go: int | None = None
        if isinstance(start.settings, BlockSettings):
            go, self._go = os.pipe()
        self._inbox: int = inbox
        inherited = tuple(descriptor for descriptor in (tell, go) if descriptor is not None)
        try:
            self._launch(inherited, Spec(start.variant.target, start.settings, tell, go))
        finally:
            for descriptor in inherited:
                os.close(descriptor)

    def _launch(self, inherited: tuple[int, ...], spec: Spec) -> None:
        start = self.start
        order_read, self._control = os.pipe()
        self._status, status_write = os.pipe()
        target = start.variant.target
        script = Path(target.path) if isinstance(target, Script) and not target.module else None
        order = Order(
            command=(start.python, str(Path(__file__).with_name("bootstrap.py"))),
            spec=str((start.folder / f".spec-{secrets.token_hex(4)}.json").resolve()),
            spec_text=spec.to_json(),
            cwd=str(Path.cwd()),
            containment=self.containment,
            scratch=self.scratch,
            descriptors=inherited,
            through=(str(start.folder.resolve()), *_own_folders(start.variant.environment)),
            projects=projects_of(script, Path.cwd()) if self.scratch is ScratchKind.COPY else (),
            detached=not start.is_interactive,
        )
        log = start.log.open("ab") if start.log else None
        try:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "hotlap.launch.supervisor", str(order_read), str(status_write)],
                stdin=None if start.is_interactive else subprocess.DEVNULL,
                stdout=log or start.stdout,
                stderr=log,
                env=start.environment,
                pass_fds=(order_read, status_write, *inherited),
            )
        finally:
            for descriptor in (order_read, status_write):
                os.close(descriptor)
            if log:
                log.close()
        with suppress(BrokenPipeError):
            os.write(self._control, order.to_json().encode() + b"\n")

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what it says --

    def receive(self, timeout: float) -> Message:
        """The next message. `Failure` if the child failed or ended instead, `NoAnswer` if it says nothing for that long."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._unread:
            chunk = self._read(min(_POLL, max(0.0, deadline - time.monotonic())))
            if chunk == b"":
                raise Failure(f"{self._how_it_ended()}{self.tail()}")
            if chunk is None and time.monotonic() > deadline:
                raise NoAnswer(f"did nothing for {timeout:.0f} s{self.tail()}")
            self._unread += chunk or b""
            if len(self._unread) > messages.MOST_BYTES:
                raise Failure(f"sent what is no message of hotlap's{self.tail()}")
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message = messages.decode(line)
        except ValueError as error:
            raise Failure(f"sent what is no message of hotlap's: {error}{self.tail()}") from None
        if isinstance(message, messages.Failed):
            raise Failure(f"failed: {message.error}{self.tail()}")
        return message

    def messages(self) -> list[Message]:
        """What it has said by now; what is no message is left out. Nobody waits."""
        while chunk := self._read(0.0):
            self._unread = (self._unread + chunk)[-messages.MOST_BYTES :]
        *lines, self._unread = self._unread.split(b"\n")
        decoded = []
        for line in lines:
            with suppress(ValueError):
                decoded.append(messages.decode(line))
        return decoded

    def wait_until_ready(self, timeout: float) -> None:
        if not isinstance(self.receive(timeout), Ready):
            raise Failure("sent a block before it was ready")

    def block(self, timeout: float) -> Block:
        """Let it work a block; what it did. Its processes run only meanwhile."""
        self.resume()
        with suppress(BrokenPipeError):
            if self._go is not None:
                os.write(self._go, b"g")
        message = self.receive(timeout)
        if not isinstance(message, BlockDone):
            raise Failure("sent something else than its block")
        self.pause()
        return message.block

    def progress(self, timeout: float, on_message: Callable[[Progress], None]) -> None:
        """What it learns, until it ends or time is up."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self.receive(left)
            except NoAnswer:
                return
            except Failure:
                if self.wait() == 0:
                    return
                raise
            if isinstance(message, Progress):
                on_message(message)

    def _read(self, timeout: float) -> bytes | None:
        """Bytes of its messages; none if it has ended, None if it said nothing."""
        if select.select([self._inbox], [], [], timeout)[0]:
            return os.read(self._inbox, 65536)
        return b"" if self._supervisor.poll() is not None else None

    def tail(self) -> str:
        """The last line that it printed."""
        log = self.start.log
        if log:
            with suppress(OSError):
                lines = log.read_text(errors="replace").strip().splitlines()
                if lines:
                    return f" (its output, {log}, ends with: {lines[-1][:200]})"
        return ""

    def _how_it_ended(self) -> str:
        code = self.wait(_KILLING)
        refused = [effect for effect in take(self.start.folder) if effect.kind in self.start.refused]
        if refused:  # in a process that it forked
            return f"was stopped: {effects.message(refused[0])}"
        if code is None:
            return "closed its pipe and goes on"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return "ended before enough was measured: let it train longer" if code == 0 else f"ended with exit code {code}"

    # -- commands --

    def pause(self) -> None:
        """Stop all of its processes."""
        self._command(f"signal-all {int(signal.SIGSTOP)}", wait=True)

    def resume(self) -> None:
        self._command(f"signal-all {int(signal.SIGCONT)}", wait=True)

    def signal(self, number: int) -> None:
        """A signal for the script's own process."""
        self._command(f"signal {int(number)}")

    def _command(self, line: str, wait: bool = False) -> None:
        try:
            os.write(self._control, line.encode() + b"\n")
        except OSError:  # it has ended
            return
        if wait:
            for status in self._statuses(_KILLING):
                if status.get("done") == line:
                    return

    # -- how it ends --

    def wait(self, timeout: float | None = None) -> int | None:
        """Its exit code; None if it is still running. The number of a signal is negative."""
        for _ in self._statuses(timeout):
            if self.code is not None:
                break
        return self.code

    def close(self) -> None:
        """Let it end, and end it if it does not. Afterwards none of its processes is left."""
        if self._go is not None:
            os.close(self._go)
            self._go = None
        if self._inbox >= 0:
            os.close(self._inbox)
            self._inbox = -1
        if self._is_gone:
            return
        try:
            self.resume()
            if self.wait(_CLOSING) is None:
                self.signal(signal.SIGTERM)
                self.wait(_TERMINATING)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it now, with all that it started."""
        if self._is_gone:
            return
        self._is_gone = True
        os.close(self._control)
        with suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(_KILLING)
        os.close(self._status)
        if not isinstance(self.start.settings, ProfileSettings):  # of a profile, it goes into the record
            (self.start.folder / FILE).unlink(missing_ok=True)
        if self.start.log:
            with suppress(OSError):
                if not self.start.log.stat().st_size:
                    self.start.log.unlink()

    def _statuses(self, timeout: float | None) -> Iterator[Mapping[str, Any]]:
        """What the supervisor says, until it has nothing more to say or time is up."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.code is None:
            while b"\n" in self._unread_status:
                line, _, self._unread_status = self._unread_status.partition(b"\n")
                status = json.loads(line)
                if "failed" in status:
                    raise Failure(f"could not be started: {status['failed']}")
                self.code = status.get("exited", self.code)
                yield status
            left = None if deadline is None else deadline - time.monotonic()
            if self.code is not None or (left is not None and left <= 0):
                return
            if select.select([self._status], [], [], left)[0]:
                data = os.read(self._status, 65536)
                if not data:  # it was killed
                    self.code = self._supervisor.wait() or 1
                    return
                self._unread_status += data


@cache
def _clean_up_once() -> None:
    """Scratches that killed processes left behind, the first time that this process starts a child."""
    scratch.remove_stale()


def _own_folders(environment: Mapping[str, str]) -> Iterator[str]:
    """Folders of hotlap's that a child writes to beside its record: which changes were applied, compiled libraries."""
    if APPLIED in environment:
        yield environment[APPLIED]
    kernels = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hotlap" / "kernels"
    with suppress(OSError):
        kernels.mkdir(parents=True, exist_ok=True)
        yield str(kernels.resolve())
