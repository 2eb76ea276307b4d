"""The command line: a table of contents. Each verb parses its flags, calls one function and renders what comes back.

With `--json` a verb prints one JSON document on stdout; progress and everything else goes to stderr. Exit codes: 0 done,
1 a target failed, 2 wrong usage or input, 130 interrupted.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import hotlap
from hotlap import flags
from hotlap.errors import HotlapError, UsageError
from hotlap.record import Run, find, load, write_atomically

Switch = tyro.conf.FlagCreatePairsOff[bool]
err = Console(stderr=True)


# -- systems --


@dataclass(frozen=True)
class Systems:
    """List the systems that hotlap carries.

    Example: hotlap systems
    """

    json: Switch = False
    """Print one JSON document."""


def systems(args: Systems) -> int:
    from hotlap.report import terminal
    from hotlap.report.content import Table
    from hotlap.systems import NAMES, load

    found = [load(name) for name in NAMES]
    if args.json:
        _print_json(
            {
                "schema": "hotlap.systems/1",
                "systems": {s.name: {"summary": s.summary, "algorithm": s.algorithm, "presets": s.preset_notes} for s in found},
            }
        )
        return 0
    rows: list[Any] = [
        (s.name if first else "", s.algorithm if first else "", preset, note)
        for s in found
        for first, (preset, note) in zip([True] + [False] * len(s.presets), s.preset_notes.items(), strict=False)
    ]
    table = Table("Systems", ("name", "algorithm", "preset", "what it is"), rows, "hotlap train NAME, hotlap profile NAME")
    terminal.render("; ".join(f"{s.name}: {s.summary}" for s in found), [table], terminal.Output())
    return 0


# -- train --


@dataclass(frozen=True)
class Train:
    """Train a system: progress bar, TensorBoard, checkpoints, evaluation.

    Example: hotlap train snake --preset fast --seed 1

    Example: hotlap train snake --resume latest
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """Which system: see `hotlap systems`."""
    preset: Literal["fast", "seed"] = "fast"
    """`fast`, or `seed`: as the original report had it."""
    resume: str | None = None
    """Go on with an interrupted run: its folder, its id, or "latest"."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    checkpoint_seconds: float = 15.0
    """Seconds between checkpoints."""
    evaluate_every: int = 0
    """Iterations between evaluations; 0: only at the end."""
    evaluation_episodes: int = 200
    """Greedy episodes per evaluation."""
    json: Switch = False
    """Print one JSON document."""


def train(args: Any) -> int:
    from hotlap.report.document import document
    from hotlap.train.loop import train as run_training

    system = flags.system(args.target)
    config = flags.checked(args.config)
    started = time.monotonic()
    resume = find(args.resume) if args.resume else None
    if resume and not (resume / "checkpoint.safetensors").exists():
        err.print(f"{resume} has no checkpoint yet: it begins again", highlight=False)
    with _progress(TextColumn("{task.fields[shown]}")) as progress:
        task = progress.add_task(f"train {system.name}", total=config.total_steps, shown="")
        last = {"steps": 0.0, "time": time.monotonic()}

        def report(shown: dict[str, float]) -> None:
            if "evaluating" in shown:
                progress.update(task, completed=0, total=None, shown=f"evaluating {shown['evaluating']} episodes")
                return
            now = time.monotonic()
            rate = (shown["env_steps"] - last["steps"]) / max(now - last["time"], 1e-9) if last["steps"] else 0.0
            last.update(steps=shown["env_steps"], time=now)
            score = shown.get(f"episode/{system.score}")
            text = f"{rate:,.0f} steps/s" + (f", {system.score} {score:.1f}" if score is not None else "")
            progress.update(task, completed=shown["env_steps"], shown=text)

        run = run_training(
            system,
            config,
            out=args.out,
            resume=resume,
            checkpoint_seconds=args.checkpoint_seconds,
            evaluate_every=args.evaluate_every,
            evaluation_episodes=args.evaluation_episodes,
            on_progress=report,
        )
    if run.header["status"] == "interrupted":
        err.print(f"Stopped. Go on with: hotlap train {system.name} --resume {run.path}", soft_wrap=True)
    doc = document(run)
    doc |= {"checkpoint": str(run.path / "checkpoint.safetensors"), "seconds": time.monotonic() - started}
    _show(doc, args.json, breakdown=False, only=("Where the time went", "Throughput", "Evaluation"))
    if not args.json:
        evaluating = doc["evaluation_seconds"] or 0.0
        print(
            f"\n{doc['seconds']:.0f} s in all: {doc['iteration_seconds']:.0f} s in iterations (warm-up included), "
            f"{evaluating:.0f} s evaluating, the rest starting and saving\nrecord: {run.path} (with TensorBoard events)"
        )
    return 130 if run.header["status"] == "interrupted" else 0


# -- profile --


@dataclass(frozen=True)
class Profile:
    """Measure where the time of training goes, stage by stage.

    Example: hotlap profile snake --iterations 20 --breakdown

    Example: hotlap profile snake --target "iteration_time<5s" --target "memory<2GB" --json

    Example: hotlap profile train.py --seconds 30 -- --its --own flags
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """Which system (see `hotlap systems`), or a script such as train.py; -m MODULE for a module."""
    preset: Literal["fast", "seed"] = "fast"
    """`fast`, or `seed`: as the original report had it."""
    iterations: int = 10
    """Iterations to measure after warm-up; as many bare ones run between them."""
    seconds: float | None = None
    """Measure for this long instead of a number of iterations."""
    warmup: int = 2
    """Iterations to leave out once learning has begun; a later change of level is left out too."""
    breakdown: Switch = False
    """Open collect and update into the stages inside them."""
    modules: Switch = False
    """Time each nn.Module, forward and backward, in a pass of its own."""
    detailed: Switch = False
    """Add a cProfile report: the top 50 functions, and a .pstats file in the run's folder."""
    env_only: Switch = False
    """Time the bare environments with random actions, no learning."""
    target: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A limit such as "iteration_time<5s" or "memory<2GB"; a missed one makes the exit code 1. May be repeated."""
    lines: bool = True
    """Sample which lines burn the time; --no-lines leaves it out, for the least disturbance."""
    ranges: Literal["nvtx"] | None = None
    """Also announce stages as NVTX ranges, for a run under Nsight."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def _options(args: Any) -> Any:
    from hotlap.probe.system import Options
    from hotlap.report.targets import Target

    for text in args.target:
        Target.parse(text)
    if args.iterations < 1 or args.warmup < 0 or (args.seconds is not None and args.seconds <= 0):
        raise UsageError("--iterations must be at least 1, --warmup at least 0, --seconds more than 0")
    if args.env_only and (args.modules or args.detailed):
        raise UsageError("--env-only runs no network: leave out --modules and --detailed")
    return Options(
        iterations=args.iterations,
        warmup=args.warmup,
        seconds=args.seconds,
        env_only=args.env_only,
        modules=args.modules,
        detailed=args.detailed,
        targets=tuple(args.target),
        ranges=args.ranges,
        sampler=args.lines,
    )


def profile(args: Any) -> int:
    from hotlap.probe.system import profile as run_profile

    options = _options(args)
    with _progress() as progress:
        task = progress.add_task(f"profile {args.what}", total=None)

        def report(what: str, done: int, total: int) -> None:
            progress.update(task, description=f"profile {args.what}: {what}", completed=done, total=total or None)

        run = run_profile(flags.system(args.what), flags.checked(args.config), options, out=args.out, on_progress=report)
    missed = _show_profile(run, args)
    return 130 if run.header["status"] == "interrupted" else missed


def profile_script(argv: list[str]) -> int:
    from hotlap.probe.script import profile_script as run_script

    place = argv.index("--") if "--" in argv else len(argv)
    ours, script_arguments = argv[:place], argv[place + 1 :]
    module = ours[0] == "-m"
    args = flags.parse(Profile, "profile", ours[1:] if module else ours)
    unused = [f"--{name.replace('_', '-')}" for name in ("modules", "detailed", "env_only", "ranges") if getattr(args, name)]
    if unused:
        raise UsageError(f"{', '.join(unused)}: only for systems, not for scripts")
    run, code = run_script(args.what, script_arguments, _options(args), module, args.out, quiet=args.json)
    missed = _show_profile(run, args)
    return code or missed


def _show_profile(run: Run, args: Any) -> int:
    """Print a profile; 1 if it missed a target."""
    from hotlap.report.document import document

    doc = document(run)
    _show(doc, args.json, args.breakdown)
    if not args.json:
        print(f"\nas a page: hotlap report {run.path} --format html")
    return 0 if all(target["passed"] for target in doc["targets"]) else 1


# -- report --


@dataclass(frozen=True)
class Report:
    """Render a saved run.

    Example: hotlap report latest --format html
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = "latest"
    """A run's folder, its id, or "latest"."""
    format: Literal["terminal", "md", "html", "json", "trace", "speedscope", "tensorboard"] = "terminal"
    """html, trace (for Perfetto), speedscope and tensorboard are written to files, the others to stdout."""
    breakdown: bool = True
    """Open collect and update into the stages inside them."""
    output: Path | None = None
    """File to write (for tensorboard, a folder); if not given, one in the run's folder."""
    json: Switch = False
    """The same as --format json."""


def report(args: Report) -> int:
    from hotlap.report import content, html, markdown, trace
    from hotlap.report.document import document

    run = load(args.run)
    kind = "json" if args.json else args.format
    if kind == "trace":
        return _write(args.output or run.path / "trace.json", json.dumps(trace.render(run)))
    if kind == "speedscope":
        return _write(args.output or run.path / "speedscope.json", json.dumps(trace.speedscope(run)))
    if kind == "tensorboard":
        print(trace.tensorboard(run, args.output or run.path / "tensorboard"))
        return 0
    doc = document(run)
    if kind == "terminal" and args.output is None:
        _show(doc, False, args.breakdown)
        return 0
    title, sections = content.headline(doc), content.sections(doc, args.breakdown)
    if kind == "html":
        return _write(args.output or run.path / "report.html", html.render(title, sections))
    if kind == "terminal":
        from hotlap.report import terminal

        text = StringIO()
        terminal.render(title, sections, Console(file=text, width=120))
        return _write(args.output, text.getvalue())  # type: ignore[arg-type]
    text_out = json.dumps(doc, indent=2) + "\n" if kind == "json" else markdown.render(title, sections)
    if args.output:
        return _write(args.output, text_out)
    sys.stdout.write(text_out)
    return 0


# -- shared --

VERBS: dict[str, tuple[type, Callable[[Any], int]]] = {
    "systems": (Systems, systems),
    "train": (Train, train),
    "profile": (Profile, profile),
    "report": (Report, report),
}


def main() -> None:
    """Entry point of the `hotlap` command."""
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        err.print("hotlap: interrupted; what was recorded is kept")
        code = 130
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (HotlapError, ValueError) as error:
        if os.environ.get("HOTLAP_DEBUG"):
            raise
        err.print(f"hotlap: {error}", markup=False, highlight=False, soft_wrap=True)
        code = getattr(error, "exit_code", 2)
    sys.exit(code)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        return _help()
    if argv[0] == "--version":
        print(f"hotlap {hotlap.__version__}")
        return 0
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UsageError(f"unknown verb {verb!r}{flags.nearest(verb, VERBS)}; verbs: {', '.join(VERBS)}")
    kind, function = VERBS[verb]
    if verb == "profile" and flags.is_script(rest):
        return profile_script(rest)
    if verb in ("train", "profile"):
        kind = flags.with_config(kind, rest)
    return function(flags.parse(kind, verb, rest))


def _help() -> int:
    print("hotlap: makes reinforcement-learning training fast, and proves it\n")
    for verb, (kind, _) in VERBS.items():
        print(f"  hotlap {verb:<9} {(kind.__doc__ or '').splitlines()[0]}")
    print("\nExample: hotlap profile snake --iterations 10\nhotlap VERB --help lists a verb's flags.")
    return 0


@contextmanager
def _progress(*extra: Any) -> Iterator[Progress]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=None), *extra)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True) as progress:
        yield progress


def _show(doc: dict[str, Any], as_json: bool, breakdown: bool, only: tuple[str, ...] = ()) -> None:
    if as_json:
        _print_json(doc)
        return
    from hotlap.report import content, terminal

    sections = content.sections(doc, breakdown)
    if only:
        sections = [s for s in sections if isinstance(s, content.Notes) or getattr(s, "title", "") in only]
    terminal.render(content.headline(doc), sections, terminal.Output())


def _print_json(doc: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(doc, indent=2) + "\n")


def _write(path: Path, text: str) -> int:
    write_atomically(path, text)
    print(path)
    return 0
