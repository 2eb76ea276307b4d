"""hotlap investigate."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from hotlap.core.errors import UsageError
from hotlap.record.run import Run, write_atomically
from hotlap.target import flags
from hotlap.target import words as targets
from hotlap.verbs.output import Switch, bar, err, print_json


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
    """Stop after about this long: 10m if not given. With --resume, from the beginning."""
    knob: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A flag of the script or system to try, by what it means: minibatch=--minibatch-size:64,128,256. May be repeated."""
    dry_run: Switch = False
    """Profile, print the plan, and stop."""
    rerun: Switch = False
    """The script may be run many times, whatever it writes."""
    apply: Switch = False
    """Write what was accepted: a patch, an environment file, arguments, a preset. Your files are not touched."""
    allow_learning_changes: Switch = False
    """Let --apply also write changes that can change what is learned."""
    seeds: int = 3
    """Seeds for the learning check."""
    resume: str | None = None
    """Go on with an investigation that was interrupted; with --apply, write what a finished one accepted."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def investigate(argv: list[str]) -> int:
    from hotlap.core import units
    from hotlap.interventions import knobs
    from hotlap.investigate import conduct as investigating

    place = argv.index("--") if "--" in argv else len(argv)
    ours, rest = argv[:place], argv[place + 1 :]
    module = bool(ours) and ours[0] == "-m"
    args = flags.parse(Investigate, "investigate", flags.protected(ours[1:] if module else ours))
    command = shlex.join([*(["-m"] if module else []), *shlex.split(args.what.strip()), *rest])
    if args.resume:
        budget = _budget(args.budget) if args.budget else None
        run, side, settings = investigating.resume(args.resume, targets.side, args.rerun, budget)
    else:
        if not args.what:
            raise UsageError("name what to investigate: hotlap investigate train.py")
        budget = _budget(args.budget or "10m")
        if args.seeds < 1:
            raise UsageError("--seeds must be more than 0")
        side = targets.side(command)
        for _, knob, values in map(knobs.parse, args.knob):
            for value in values if side.system else ():
                targets.setting(command, knob.flag, value)
        settings = investigating.Settings(
            budget, tuple(args.knob), args.rerun, args.allow_learning_changes, args.seeds, args.dry_run
        )
        run = investigating.begin(side, command, settings, args.out)
    with bar() as progress:
        task = progress.add_task(f"investigate {side.target}", total=settings.budget)

        def report(what: str, spent: float) -> None:
            progress.update(task, description=what[:60], completed=min(spent, settings.budget))
            if not progress.console.is_terminal:
                err.print(f"{units.seconds(spent)}: {what}", highlight=False)

        def listed(hypotheses: list[dict[str, Any]]) -> None:
            """Every intervention, before it runs."""
            for h in hypotheses:
                what, gain = h["intervention"], h["projected"]
                words = f"planned: {h['cause']}: {what['title']}"
                words += f", projected {gain['speedup']:.2f}x" if gain else ""
                words += (
                    " (may change learning)" * what["changes_learning"] + " (shows the most a fix could give)" * what["bound"]
                )
                err.print(words, highlight=False, soft_wrap=True)

        run = investigating.investigate(run, side, settings, report, listed)
    written = _apply(run, side, args) if args.apply else []
    return _show(run, args.json, written)


def _budget(text: str) -> float:
    from hotlap.core import units

    seconds = units.parse(text, "seconds")
    if seconds <= 0:
        raise UsageError("--budget must be more than 0")
    return seconds


def _apply(run: Run, side: Any, args: Investigate) -> list[Path]:
    """Write what can be taken over into the run's folder."""
    from hotlap.investigate.conduct import Investigation, Settings, files_of

    known = Investigation(run, side, Settings())
    found = files_of(run, known.texts, known.paths, args.allow_learning_changes)
    for name, text in found.items():
        write_atomically(run.path / name, text)
    return [run.path / name for name in found]


def _how(path: Path) -> str:
    """How to take over what was written."""
    if path.name != "hotlap.patch":
        words = {
            "hotlap.todo": path.read_text().strip(),
            "hotlap.env": f"source {path}",
            "hotlap.arguments": f"add to the command line: {path.read_text().strip()}",
        }
        return words.get(path.name, f"settings: {path}")
    files = [line.removeprefix("--- a/") for line in path.read_text().splitlines() if line.startswith("--- a/")]
    return f"patch {files[0]} {path}" if len(files) == 1 else f"patch -p1 < {path}"


def _show(run: Run, as_json: bool, written: list[Path]) -> int:
    from hotlap.report import investigation, terminal

    doc = investigation.document(run) | {"written": [str(path) for path in written]}
    if as_json:
        print_json(doc)
    else:
        terminal.render(investigation.headline(doc), investigation.sections(doc), terminal.Output())
        for path in written:
            print(f"\n{_how(path)}")
        print(f"\nas a page: hotlap report {doc['run']} --format html")
    return {"interrupted": 130, "failed": 1}.get(doc["status"], 0)
