"""hotlap investigate."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hotlap.core import secrets, units
from hotlap.core.errors import UsageError
from hotlap.record.header import Verb
from hotlap.record.hypothesis import Hypothesis
from hotlap.record.investigation import Settings
from hotlap.record.run import Run, load, write_atomically
from hotlap.target import words
from hotlap.target.interpreter import asked_for, machine_of, with_interpreter
from hotlap.target.target import System, Variant
from hotlap.verbs import flags
from hotlap.verbs.interleaved import ScratchChoice, scratch_of
from hotlap.verbs.output import EXIT_CODES, Switch, print_json, say, time_bar

if TYPE_CHECKING:
    from hotlap.investigate.apply import Withheld


@dataclass(frozen=True)
class Investigate:
    """Find out why training is slow, prove it by experiments, and prove the fix.

    Example: hotlap investigate train.py

    Example: hotlap investigate train.py --dry-run -- --its --own flags

    Example: hotlap investigate train.py --knob minibatch=--minibatch-size:64,128,256 --budget 20m --apply
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")] = ""
    """A script such as train.py, or a system; -m MODULE for a module. The script's own flags follow after --."""
    budget: str | None = None
    """Stop after about this long: 10m if not given. With --resume, counted from the start of the investigation."""
    knob: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A flag of the script or system to try, by what it means: minibatch=--minibatch-size:64,128,256. May be repeated."""
    dry_run: Switch = False
    """Profile, print the plan, and stop."""
    rerun: Switch = False
    """The script may be run many times, whatever it does outside its files."""
    apply: Switch = False
    """Write what was accepted: a patch, an environment file, arguments, a preset. Your files are not touched."""
    allow_learning_changes: Switch = False
    """Let --apply also write changes that can change what is learned."""
    seeds: int = 3
    """Seeds for the learning check."""
    python: str | None = None
    """Which Python runs a script: a path. If not given, that of the active environment, or `python` on the PATH."""
    scratch: ScratchChoice = "auto"
    """Where a script runs: an overlay of your folders, or a copy of the project. What it writes goes away with it."""
    in_place: Switch = False
    """Run the script in your own folder, where it overwrites what it writes."""
    resume: str | None = None
    """Continue an interrupted investigation; with --apply, write what a finished one accepted."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def investigate(argv: list[str]) -> int:
    from hotlap.investigate import conduct

    place = argv.index("--") if "--" in argv else len(argv)
    ours, rest = argv[:place], argv[place + 1 :]
    module = bool(ours) and ours[0] == "-m"
    args = flags.parse(Investigate, "investigate", flags.protected(ours[1:] if module else ours))
    command = shlex.join([*(["-m"] if module else []), *shlex.split(args.what.strip()), *rest])
    if args.resume:
        run, variant, settings = _resume(args, command)
    else:
        run, variant, settings = _begin(args, command)
    with time_bar() as progress:
        before = run.header.investigation.spent
        task = progress.add_task(f"investigate {variant.target.name}", total=settings.budget, before=before)

        def on_progress(what: str, spent: float) -> None:
            progress.update(task, description=what)
            if not progress.console.is_terminal:
                say(f"{units.seconds(spent)}: {what}")

        run = conduct.investigate(run, variant, settings, on_progress, _list_plan)
    if not args.apply:
        return _show(run, args.json, None)
    return _show(run, args.json, _apply(run, variant, args))


def _begin(args: Investigate, command: str) -> tuple[Run, Variant, Settings]:
    from hotlap.interventions import knobs
    from hotlap.investigate import opening

    if not args.what:
        raise UsageError("name what to investigate: hotlap investigate train.py")
    if args.seeds < 1:
        raise UsageError("--seeds must be more than 0")
    variant = with_interpreter(words.variant(command), args.python)
    for _, knob, values in map(knobs.parse, args.knob):
        for value in values if isinstance(variant.target, System) else ():
            words.setting(command, knob.flag, value)
    settings = Settings(
        budget=_seconds(args.budget or "10m"),
        knobs=tuple(args.knob),
        rerun=args.rerun,
        allow_learning=args.allow_learning_changes,
        seeds=args.seeds,
        dry=args.dry_run,
        scratch=scratch_of(args),
    )
    return opening.begin(variant, secrets.masked_command(command), settings, args.out), variant, settings


def _resume(args: Investigate, command: str) -> tuple[Run, Variant, Settings]:
    from hotlap.investigate import opening

    header = load(args.resume or "", (Verb.INVESTIGATE,)).header
    saved = header.investigation.command
    if secrets.has_mask(saved) and not command:
        raise UsageError(f"the record keeps no secrets: name the target once more, as in {saved}")
    if command and secrets.masked_command(command) != saved:
        raise UsageError(f"{args.resume} is an investigation of {saved}, not of {secrets.masked_command(command)}")
    variant = with_interpreter(words.variant(command or saved), args.python or asked_for(header.machine))
    now, before = machine_of([variant]), load(args.resume or "").header.machine
    if before.python_path and (now.python, now.python_path) != (before.python, before.python_path):
        raise UsageError(f"{args.resume} was begun with Python {before.python} ({before.python_path}): choose it with --python")
    run = opening.reopen(args.resume or "", args.rerun, _seconds(args.budget) if args.budget else None)
    return run, variant, run.header.investigation.settings


def _seconds(text: str) -> float:
    seconds = units.parse(text, "seconds")
    if seconds <= 0:
        raise UsageError("--budget must be more than 0")
    return seconds


def _list_plan(hypotheses: Sequence[Hypothesis]) -> None:
    """Every intervention, before it runs."""
    for hypothesis in hypotheses:
        intervention = hypothesis.intervention
        assert intervention is not None
        words = f"planned: {hypothesis.cause}: {intervention.title}"
        words += f", projected {hypothesis.projected.speedup:.2f}x" if hypothesis.projected else ""
        words += " (may change learning)" * intervention.changes_learning
        words += " (an upper bound on what a fix can give)" * intervention.upper_bound
        say(words)


@dataclass(frozen=True)
class Applied:
    """What `--apply` wrote, and why not more."""

    paths: tuple[Path, ...]
    withheld: "Withheld | None"


def _apply(run: Run, variant: Variant, args: Investigate) -> Applied:
    """Write the accepted changes into the run's folder."""
    from hotlap.investigate.apply import files_of, withheld
    from hotlap.investigate.sources import Sources

    sources = Sources(run.path, variant.target).read()
    state = run.header.investigation
    files = files_of(state, sources, args.allow_learning_changes)
    for name, text in files.items():
        write_atomically(run.path / name, text)
    return Applied(tuple(run.path / name for name in files), withheld(state, args.allow_learning_changes))


def _why_withheld(reason: "Withheld", run: Path) -> str:
    """Why --apply did not write something, and what would."""
    from hotlap.investigate.apply import Withheld

    again = f"hotlap investigate --resume {shlex.quote(str(run))}"
    words = {
        Withheld.PLAN_ONLY: f"nothing was tried yet. Try it: {again} --apply",
        Withheld.UNSAFE: f"the script was not run again. If it may be: {again} --rerun --apply",
        Withheld.NOTHING_ACCEPTED: "no change was accepted, so there is nothing to write.",
        Withheld.OTHER_LOSSES: "the changed script does not compute the same losses. "
        f"Write it all the same: {again} --apply --allow-learning-changes",
        Withheld.CHANGES_LEARNING: "some accepted changes can change what is learned. "
        f"Write them too: {again} --apply --allow-learning-changes",
    }
    return f"not written: {words[reason]}"


def _how_to_use(path: Path) -> str:
    """How to use what was written."""
    from hotlap.investigate import apply

    text = path.read_text().strip()
    if path.name == apply.PATCH:
        return (
            f"the patch is {path}; apply it here: git apply {shlex.quote(str(path))} (or patch -p1 < {shlex.quote(str(path))})"
        )
    how = {
        apply.BY_HAND: text,
        apply.ENVIRONMENT: f"source {shlex.quote(str(path))}",
        apply.ARGUMENTS: f"add to the command line: {text}",
    }
    return how.get(path.name, f"settings: {path}")


def _show(run: Run, as_json: bool, applied: Applied | None) -> int:
    from hotlap.report.investigation import report_of
    from hotlap.report.show import show_report

    report = report_of(run)
    if as_json:
        paths, reason = (applied.paths, applied.withheld) if applied else ((), None)
        print_json(report, written=[str(path) for path in paths], withheld=reason)
    else:
        show_report(report)
        for path in applied.paths if applied else ():
            print(f"\n{_how_to_use(path)}")
        if applied and applied.withheld:
            print(f"\n{_why_withheld(applied.withheld, run.path)}")
        print(f"\nas a page: hotlap report {shlex.quote(str(run.path))} --format html")
    return EXIT_CODES.get(run.status, 0)
