"""The one child program, started by its path (`bootstrap.py`). It runs a target in one of its modes (`spec.py`).

- profile: a script, measured window by window into a record;
- blocks: a script or a system that works a block at a time, when it is told to (`blocks.py`);
- curve: a script or a system, run for what it learns (`curve.py`);
- help: a script that prints its flags.

A script sees the `sys.argv`, `sys.path` and `__main__` that it would see without us; its output, exit code and traceback
are its own. When enough has been measured, it is stopped at an environment step by an exception that runs its `finally` blocks.

For a script only `core`, `record`, `probe`, `interventions` and this folder are imported, all of them standard library only.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hotlap.launch.messages import Failed, Sender
from hotlap.launch.spec import BlockSettings, CurveSettings, ProfileSettings, Spec
from hotlap.target.target import Script


def main() -> None:
    spec = Spec.take(Path(sys.argv[1]))
    process = os.getpid()
    sender = Sender(spec.tell)
    try:
        code, error = _run(spec, sender)
    except Exception as problem:
        code, error = 1, f"{type(problem).__name__}: {problem}"
    if os.getpid() == process and error:
        with suppress(OSError):  # hotlap may have heard enough
            sender.send(Failed(error))
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(spec.target, Script):
        sys.exit(code)
    os._exit(code)  # threads of a system's libraries must not hold it up


def _run(spec: Spec, sender: Sender) -> tuple[int, str | None]:
    """Exit code and error."""
    settings, target = spec.settings, spec.target
    if isinstance(target, Script):
        from hotlap.launch import guard
        from hotlap.probe import effects, trackers

        watched = guard.install()
        if watcher := effects.install():
            trackers.watch(watcher)
        target = replace(target, path=target.path if target.module else guard.moved_script(target.path))
        sys.argv = [target.path, *target.arguments]
        code, error = _run_script(spec, target, sender)
        # What was refused in a thread, or swallowed by a bare except, fails the run all the same.
        if watcher and watcher.refused:
            return 1, effects.message(watcher.refused)
        return (1, guard.message(watched.refused)) if watched and watched.refused else (code, error)
    if isinstance(settings, BlockSettings):
        from hotlap.launch import blocks

        return blocks.run_system(target, blocks.Worker(sender, _demand(spec.go), settings.seconds), settings.warmup)
    if isinstance(settings, CurveSettings):
        from hotlap.launch import curve

        return curve.run_system(target, curve.CurveProbe(settings, sender))
    raise ValueError(f"a system has no mode {settings.mode.value}")


def _run_script(spec: Spec, script: Script, sender: Sender) -> tuple[int, str | None]:
    settings = spec.settings
    if isinstance(settings, ProfileSettings):
        return _profile(script, settings, sender)
    if isinstance(settings, BlockSettings):
        from hotlap.launch import blocks

        return blocks.run_script(script, blocks.Worker(sender, _demand(spec.go), settings.seconds), settings.warmup)
    if isinstance(settings, CurveSettings):
        from hotlap.launch import curve

        return curve.run_script(script, curve.CurveProbe(settings, sender))
    from hotlap.launch.execute import execute

    return execute(script)


def _profile(script: Script, settings: ProfileSettings, sender: Sender) -> tuple[int, str | None]:
    from hotlap.interventions import intervened
    from hotlap.launch.execute import execute
    from hotlap.launch.pulse import Clock
    from hotlap.probe.events import EVENTS
    from hotlap.probe.hooks.logging import watched_output
    from hotlap.probe.recorder import Recorder, install
    from hotlap.probe.stopping import StopProfiling, wait_for_threads
    from hotlap.record.observed import Observed, Outcome, write_outcome

    process, folder = os.getpid(), Path(settings.run)
    install()
    recorder = Recorder(folder, settings.options)
    recorder.begin()
    clock = Clock(settings, recorder, sender)
    with intervened(), watched_output(EVENTS):
        try:
            code, error = execute(script, recorder.measure_what_if)
        except StopProfiling:  # it was told twice, and was already ending
            code, error = 0, None
        clock.stop()
        observed = recorder.end() if os.getpid() == process else Observed()
    if os.getpid() == process:  # a process that the script forked ends here too; the record is not its own
        status = "failed" if error else "interrupted" if code == 130 else "done"
        with suppress(OSError):  # the script has removed its record, or the disk is full
            write_outcome(folder, Outcome(status, code, error, observed))
        if recorder.was_told_to_stop:
            wait_for_threads(code)
    return code, None


def _demand(descriptor: int | None) -> int:
    if descriptor is None:
        raise ValueError("blocks need a pipe that says when to go")
    return descriptor
