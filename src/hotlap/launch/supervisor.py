"""Stands between hotlap and a child: `python -m hotlap.launch.supervisor CONTROL STATUS` (two descriptors of pipes).

It makes the child's scratch and namespaces, starts it, stops and continues all of its processes when it is told to, and says
how it ended. Its own end is what matters: when hotlap closes the control pipe or dies, however it dies, the supervisor
kills all that descends from it, removes the scratch, and goes. It ignores the signals that end hotlap.

In a PID namespace the child's processes cannot get away: the kernel kills them with the namespace's first process, which
dies with the supervisor. Without one, the supervisor is a subreaper: processes that call setsid or daemonise become its
children.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hotlap.launch import linux, namespaces, scratch
from hotlap.launch.scratch import Containment, ScratchKind
from hotlap.launch.spec import write_spec

_CHECK = 0.5  # seconds between two checks of whether hotlap is alive: another process may hold its end of the pipe
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGTTOU)


@dataclass(frozen=True)
class Order:
    """What to start, and how."""

    command: tuple[str, ...]  # without the spec's path, which comes last
    spec: str  # its path
    spec_text: str  # what the child reads there. Written by the supervisor, who removes it whatever happens
    cwd: str
    containment: Containment
    scratch: ScratchKind
    descriptors: tuple[int, ...] = ()  # that the child inherits
    through: tuple[str, ...] = ()  # folders that are the real ones in a scratch
    projects: tuple[str, ...] = ()  # folders that a copy holds
    detached: bool = True  # in a session of its own: no Ctrl-C reaches it

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        values = json.loads(text)
        for name in ("command", "descriptors", "through", "projects"):
            values[name] = tuple(values[name])
        return cls(**{**values, "containment": Containment(values["containment"]), "scratch": ScratchKind(values["scratch"])})


@dataclass
class Supervisor:
    order: Order
    control: int
    status: int
    parent: int = field(default_factory=os.getppid)
    child: int = 0  # our own: the script, or the first process of its namespace
    main: int = 0  # the script
    folder: Path | None = None
    _unread: bytes = b""

    def run(self) -> None:
        try:
            self._start()
        except Exception as error:
            self._tell(failed=str(getattr(error, "strerror", None) or error))
            self._end()
            return
        with suppress(OSError):
            os.setsid()  # whoever kills hotlap's process group must not kill us: we clean up after it
        self._watch()
        self._end()

    # -- start --

    def _start(self) -> None:
        if linux.IS_LINUX:
            linux.become_subreaper()
        variables: dict[str, str] = {}
        cwd = self.order.cwd
        if self.order.scratch is ScratchKind.OVERLAY:
            self.folder = scratch.create_scratch(spread=True)
        elif self.order.scratch is ScratchKind.COPY:
            from hotlap.launch import copying

            self.folder = scratch.create_scratch()
            copies = copying.copy_projects(self.folder, self.order.projects, self.order.through)
            cwd, variables = copies.moved(cwd), copies.environment(self.order.through)
        in_namespace = self.order.containment is Containment.PID_NAMESPACE
        with_user_namespace = in_namespace and namespaces.enter_namespaces()
        write_spec(Path(self.order.spec), self.order.spec_text)
        ready, report = os.pipe()
        self.child = os.fork()
        if not self.child:
            os.close(ready)
            self._in_fork(report, cwd, variables, in_namespace, with_user_namespace)
        os.close(report)
        for descriptor in self.order.descriptors:  # the pipes of the child must close with it
            os.close(descriptor)
        with os.fdopen(ready, "rb") as pipe:
            if reason := pipe.read().decode(errors="replace"):
                raise OSError(1, reason)
        self.main = self.child
        if in_namespace:  # its first process has one child so far, the script
            self.main = next((pid for pid in linux.descendants(os.getpid()) if pid != self.child), self.child)
        self._tell(started=True)

    def _in_fork(
        self, report: int, cwd: str, variables: Mapping[str, str], in_namespace: bool, with_user_namespace: bool
    ) -> None:
        """In the new process: make what it needs, and become the child, or the first process of its namespace."""
        try:
            parent = 0 if in_namespace else os.getppid()
            if linux.IS_LINUX:
                linux.die_with_parent(parent)
            os.close(self.control)
            os.close(self.status)
            if in_namespace:
                self._enter(with_user_namespace)
                if child := os.fork():
                    os.close(report)
                    self._be_first_process(child)
                linux.die_with_parent(1)
            os.chdir(cwd)
            os.environ.update(variables)
            self._execute()
        except BaseException as error:
            with suppress(OSError):
                os.write(report, str(getattr(error, "strerror", None) or error or type(error).__name__).encode()[:1000])
            os._exit(127)

    def _enter(self, with_user_namespace: bool) -> None:
        namespaces.enter_mounts()
        if self.order.scratch is ScratchKind.OVERLAY and self.folder is not None:
            from hotlap.launch import overlay

            overlay.mount_all(self.folder, self.order.through, with_user_namespace)
        elif self.order.scratch is ScratchKind.COPY:
            namespaces.mount_shared_memory()
        namespaces.mount_proc()

    def _execute(self) -> None:
        if self.order.detached:
            os.setsid()
        for number in (*_IGNORED, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in self.order.descriptors:
            os.set_inheritable(descriptor, True)
        os.execvpe(self.order.command[0], (*self.order.command, self.order.spec), os.environ)

    def _be_first_process(self, child: int) -> None:
        """Process 1 of the namespace: wait until the child ends, and end as it did. With this process all others end."""
        for descriptor in self.order.descriptors:
            os.close(descriptor)
        while True:
            pid, status = os.wait()
            if pid == child:
                code = linux.exit_code(status)
                os._exit(code if code >= 0 else 128 - code)

    # -- watch --

    def _watch(self) -> None:
        """Until the child has ended, or hotlap is gone."""
        awake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ended = linux.reap()
            if self.child in ended:
                self._tell(exited=self._exit_code(ended[self.child]))
                return
            readable, _, _ = select.select([self.control, awake], [], [], _CHECK)
            if awake in readable:
                os.read(awake, 4096)
            if self.control in readable and not self._obey():
                return
            if os.getppid() != self.parent:
                return

    def _exit_code(self, code: int) -> int:
        """The first process of a namespace says by a number above 128 that the child died of a signal."""
        in_namespace = self.order.containment is Containment.PID_NAMESPACE
        return 128 - code if in_namespace and code > 128 and code - 128 in set(signal.Signals) else code

    def _obey(self) -> bool:
        """Commands, a line each; False when the pipe is closed."""
        data = os.read(self.control, 4096)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            name, _, number = line.decode().partition(" ")
            if name == "signal-all":
                self._signal_all(int(number))
                self._tell(done=line.decode())
            elif name == "signal":
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(self.main, int(number))
        return bool(data)

    def _signal_all(self, number: int) -> None:
        if not linux.IS_LINUX:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child, number)
            return
        first = {self.child} if self.order.containment is Containment.PID_NAMESPACE else set()
        linux.signal_all(os.getpid(), number, frozenset(first))

    # -- end --

    def _end(self) -> None:
        """Kill what is left, remove the scratch."""
        if linux.IS_LINUX:
            if self.child and self.order.containment is Containment.PID_NAMESPACE:
                with suppress(ProcessLookupError):
                    os.kill(self.child, signal.SIGKILL)
            linux.kill_all(os.getpid())
        elif self.child:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child, signal.SIGKILL)
        Path(self.order.spec).unlink(missing_ok=True)
        if self.folder is not None:
            scratch.remove_scratch(self.folder)
        self._tell(gone=True)

    def _tell(self, **message: Any) -> None:
        with suppress(OSError):
            os.write(self.status, json.dumps(message).encode() + b"\n")


def main() -> None:
    control, status = int(sys.argv[1]), int(sys.argv[2])
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(control, 1)
        if not byte:
            return
        line += byte
    order = Order.from_json(line.decode())
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)
    Supervisor(order, control, status).run()


if __name__ == "__main__":
    main()
