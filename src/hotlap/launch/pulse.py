"""Keeps the time of a script's profile, and lets hotlap know how far it is.

The clock starts when training begins: at the first optimizer step, here or in a worker process. hotlap asks twice a second, by
a signal that does nothing by default; the script's process answers, and stops the script once its time is up, wherever it is:
in a long update, while it waits for workers. A script that does not stop is ended by hotlap. With `--seconds S` it is all
over at most 1.2 S + 10 s after training began, what-if curves included; or after the patience for that, if it never did.

Standard library only: the script's process has one half of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.core.errors import TargetFailed
from hotlap.launch.messages import Pulse, Sender
from hotlap.launch.spec import ProfileSettings
from hotlap.probe.events import EVENTS
from hotlap.probe.notes import note
from hotlap.probe.recorder import Recorder
from hotlap.probe.stopping import StopProfiling
from hotlap.record.files import LEARNERS

if TYPE_CHECKING:
    from hotlap.launch.launcher import Child
    from hotlap.launch.options import ProfileOptions

SIGNAL = signal.SIGWINCH  # ignored by default, so it harms no process that the script has become
_ASK = 0.5  # seconds between two questions
_SWALLOWED = 5.0  # seconds after which a script that trains on is stopped once more
_LATE = 2.0  # seconds for what-if curves of a script whose time is up
_STOPPING = 6.0  # seconds beyond 1.2 S after which a script that does not stop gets SIGTERM
_TERMINATING = 3.0  # seconds that it has then

OnProgress = Callable[[Pulse, float], None]  # (how far it is, seconds since training began, or since the start)


class Clock:
    """In the script's process: answers, and stops the script when its time is up."""

    def __init__(self, settings: ProfileSettings, recorder: Recorder, sender: Sender) -> None:
        seconds = settings.options.seconds
        self._limit = None if seconds is None else 1.1 * seconds + 3.0
        self._patience = settings.patience
        self._recorder, self._sender = recorder, sender
        self._learners = Path(settings.run) / LEARNERS
        self._process = os.getpid()
        self._started = time.monotonic()
        self._trains_since: float | None = None
        self._said: Pulse | None = None
        signal.signal(SIGNAL, self._on_signal)
        signal.siginterrupt(SIGNAL, False)  # system calls go on after it
        self._say(Pulse())

    def stop(self) -> None:
        with suppress(ValueError, TypeError):
            signal.signal(SIGNAL, signal.SIG_IGN)

    def _on_signal(self, *_: object) -> None:
        if os.getpid() != self._process:
            return
        now = time.monotonic()
        if self._trains_since is None and (EVENTS.learned or self._worker_learns()):
            self._trains_since = now
        self._say(Pulse(self._trains_since is not None, *self._recorder.measured))
        if self._recorder.is_measuring_what_if():
            return
        if self._is_over(now) and self._may_stop(now):
            if self._trains_since is None:
                note("training", f"Training did not begin within {now - self._started:.0f} s: no optimizer was seen to step.")
            self._recorder.measure_what_if(_LATE)
            self._recorder.note_stop()
            raise StopProfiling

    def _say(self, pulse: Pulse) -> None:
        if pulse != self._said:
            self._said = pulse
            with suppress(OSError):
                self._sender.send(pulse)

    def _is_over(self, now: float) -> bool:
        if self._trains_since is not None:
            return self._limit is not None and now - self._trains_since > self._limit
        return self._patience is not None and now - self._started > self._patience

    def _may_stop(self, now: float) -> bool:
        """Not again while its `finally` blocks run, whoever stopped it; but if it swallowed the exception and trains on."""
        if self._recorder.stopped_at is None:
            return not self._recorder.was_told_to_stop
        then, steps = self._recorder.stopped_at
        return now - then > _SWALLOWED and (EVENTS.env_steps > steps or EVENTS.updated)

    def _worker_learns(self) -> bool:
        with suppress(OSError):
            return any(self._learners.glob("*/samples.jsonl"))
        return False


class Overdue(TargetFailed):
    """A script that did not stop when its time was up: hotlap has ended it."""


def wait_in_time(child: Child, options: ProfileOptions, on_progress: OnProgress) -> int | None:
    """In hotlap: the exit code of a script. `Overdue` if it had to be ended."""
    started = time.monotonic()
    pulse: Pulse | None = None  # none yet: Python starts, or the script's process hangs before its first line
    trains_since: float | None = None
    is_terminated = False
    while (code := child.wait(_ASK)) is None:
        pulse = next((message for message in reversed(child.messages()) if isinstance(message, Pulse)), pulse)
        now = time.monotonic()
        if pulse is not None:
            child.signal(SIGNAL)
            if pulse.is_training:
                trains_since = trains_since or now
        on_progress(pulse or Pulse(), now - (trains_since or started))
        if options.seconds is None:
            continue
        late = now - trains_since - 1.2 * options.seconds if trains_since else now - started - options.patience
        if late > _STOPPING + _TERMINATING:
            child.kill()
            raise Overdue("it did not stop")
        if late > _STOPPING and not is_terminated:
            is_terminated = True
            child.signal(signal.SIGTERM)
    if is_terminated and code:
        raise Overdue("it did not stop")
    return code
