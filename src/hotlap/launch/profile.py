"""Profile a target: a user's script, unchanged, in a process of its own; a system in this one, where its progress is shown."""

import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.core.errors import RecordError, TargetFailed, UsageError
from hotlap.core.secrets import masked
from hotlap.launch import changes
from hotlap.launch.copying import projects_of
from hotlap.launch.launcher import Child, Start
from hotlap.launch.options import ProfileOptions
from hotlap.launch.pulse import OnProgress, Overdue, wait_in_time
from hotlap.launch.scratch import ScratchKind
from hotlap.launch.spec import ProfileSettings
from hotlap.probe.frameworks.plugins import plugin_variable
from hotlap.record import effects
from hotlap.record.header import Setup, Status, Verb
from hotlap.record.learners import adopt_learners
from hotlap.record.machine import Machine
from hotlap.record.observed import Observed, read_outcome
from hotlap.record.run import Run, load
from hotlap.target.interpreter import machine_of
from hotlap.target.target import Script, System, Variant

_INTERRUPTED = (130, -signal.SIGINT)


def profile(
    variant: Variant,
    options: ProfileOptions,
    folder: Path,
    scratch: ScratchKind | str = ScratchKind.AUTO,
    rerun: bool = True,
) -> Run:
    """Profile a variant in a scratch, beside other experiments; what it prints goes to a log beside the record."""
    if isinstance(variant.target, System):
        from hotlap import systems
        from hotlap.launch.system import profile as profile_system
        from hotlap.systems.configs import checked, config_from

        system = systems.load(variant.target.name, variant.target.algorithm)
        return profile_system(system, checked(config_from(system, variant.target.config)), options, out=folder)
    log = Path(f"{folder}.log")
    return profile_script(variant, options, folder, scratch=ScratchKind(scratch), log=log, rerun=rerun)[0]


def profile_script(
    variant: Variant,
    options: ProfileOptions,
    out: Path | None = None,
    scratch: ScratchKind = ScratchKind.IN_PLACE,
    quiet: bool = False,
    log: Path | None = None,
    rerun: bool = True,
    on_progress: OnProgress = lambda *_: None,
) -> tuple[Run, int]:
    """Run a script under the probe; its record and its exit code.

    `quiet` sends its stdout to stderr; a `log` gets all that it prints. Without `rerun` the script is stopped before it does
    what a scratch cannot contain.
    """
    script = variant.target
    if not isinstance(script, Script):
        raise TypeError("a system is profiled by launch/system.py")
    if not script.module and not Path(script.path).is_file():
        raise UsageError(f"no script {script.path!r}")
    config = {"script": script.name, "arguments": masked(script.arguments)}
    run = create_run(script.name, config, machine_of([variant]), out, options.targets)
    start = Start(
        variant=replace(variant, environment={**plugin_variable(), **variant.environment}),
        settings=ProfileSettings(str(run.path.resolve()), options.of_probe, options.patience if options.seconds else None),
        folder=run.path,
        scratch=scratch,
        log=log,
        stdout=sys.stderr if quiet else None,
        is_interactive=log is None,
        rerun=rerun,
    )
    run.update(setup=replace(run.header.setup, containment=start.containment.value, scratch=start.scratch_kind.value))
    folders = projects_of(None if script.module else Path(script.path), Path.cwd())
    before = changes.snapshot(folders, run.path.resolve()) if start.scratch_kind is ScratchKind.IN_PLACE else {}
    is_overdue = False
    try:
        code, last_line = _run(start, options, on_progress)
    except Overdue:
        code, last_line, is_overdue = 0, "", True
    except TargetFailed as failure:
        run.finish(Status.FAILED, error=str(failure))
        return run, 1
    try:
        run = load(run.path)
    except RecordError as problem:
        lost = TargetFailed(f"{script.name} {ended(code)}, and its record is gone ({problem}); --out keeps it elsewhere")
        lost.exit_code = code if code > 0 else 1
        raise lost from None
    files = changes.files_changed(before, folders)
    if is_overdue:
        _finish_overdue(run, files)
    else:
        _finish(run, code, files, last_line)
    return load(run.path), 1 if code < 0 else code  # a signal's number is no exit code


def _run(start: Start, options: ProfileOptions, on_progress: OnProgress) -> tuple[int, str]:
    """The script's exit code, and the last line of its log. A Ctrl-C in a terminal reaches the script too; one that reached
    only us is passed on."""
    with Child(start) as child:
        earlier = signal.signal(signal.SIGTERM, lambda *_: child.signal(signal.SIGTERM))
        try:
            code: int | None = wait_in_time(child, options, on_progress)
        except KeyboardInterrupt:
            code = child.wait(2.0)
            if code is None:
                child.signal(signal.SIGINT)
                code = child.wait()
        finally:
            signal.signal(signal.SIGTERM, earlier)
        return 1 if code is None else code, child.tail()


def ended(code: int) -> str:
    """How a script's process ended, in words."""
    if code == -signal.SIGKILL:
        return "was killed by SIGKILL (by somebody, or by the system for want of memory)"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _finish_overdue(run: Run, files: tuple[str, ...]) -> None:
    """Of a script that hotlap had to end: what it had seen when it was to stop, if it could still say so."""
    outcome, late = read_outcome(run.path), "The script did not stop when its time was up, so hotlap ended it"
    seen = outcome.observed if outcome else Observed()
    note = f"{late}." if outcome else f"{late}: lines and networks are missing here."
    observed = replace(seen, notes=(*seen.notes, note), files_changed=files, effects=effects.take(run.path))
    run.finish(Status.DONE, **with_learners(run.path, observed))


def _finish(run: Run, code: int, files: tuple[str, ...], last_line: str) -> None:
    outcome, done = read_outcome(run.path), effects.take(run.path)
    if outcome is None:
        status = Status.INTERRUPTED if code in _INTERRUPTED else Status.FAILED
        error = None if status is Status.INTERRUPTED else f"the script {ended(code)} before hotlap could finish{last_line}"
        exit_code = code if code >= 0 else None
        seen = with_learners(run.path, Observed(files_changed=files, effects=done))
        run.finish(status, error=error, exit_code=exit_code, **seen)
        if error:
            print(f"hotlap: {error}", file=sys.stderr)
        return
    observed, error = replace(outcome.observed, files_changed=files, effects=done), outcome.error
    if code != outcome.exit_code & 0xFF:  # an exit handler, or a library that crashes when Python shuts down
        error = error or f"the script was through (exit code {outcome.exit_code}), then its process {ended(code)}"
        print(f"hotlap: {error}; what was measured is whole", file=sys.stderr)
    run.finish(Status(outcome.status), error=error, exit_code=outcome.exit_code, **with_learners(run.path, observed))


def with_learners(folder: Path, observed: Observed) -> dict[str, Any]:
    """What was observed, in the process that learns if it is another; as sections of the header."""
    adopted = adopt_learners(folder, observed)
    return {"observed": observed} if adopted is None else {"observed": adopted.observed, "learners": adopted.learners}


def create_run(name: str, config: dict[str, Any], machine: Machine, out: Path | None, targets: Sequence[str] = ()) -> Run:
    """The record of something that hotlap did not write."""
    return Run.create(
        Verb.PROFILE,
        name,
        config,
        machine,
        out,
        setup=Setup(gpu_timing="kernels of one window, by torch's profiler", targets=tuple(targets)),
    )
