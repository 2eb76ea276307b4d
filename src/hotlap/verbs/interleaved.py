"""What `compare` and `sweep` share: targets measured in interleaved runs, with a progress bar."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import tyro

from hotlap.core import units
from hotlap.core.errors import UsageError
from hotlap.record.blocks import Plan, Schedule
from hotlap.record.header import Interleaved, Verb
from hotlap.record.run import Run
from hotlap.target.interpreter import with_interpreter
from hotlap.target.target import Script, Variant
from hotlap.verbs.output import EXIT_CODES, print_json, say, time_bar

Knobs = tyro.conf.UseAppendAction[tuple[str, ...]]
_SAY_EVERY = 10.0  # seconds between two lines where no bar can be drawn
ScratchChoice = Literal["auto", "overlay", "copy"]


class Measured(Protocol):
    """The flags that say how long and how exactly to measure, and where a script runs."""

    @property
    def budget(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def blocks(self) -> int: ...
    @property
    def block(self) -> str: ...
    @property
    def warmup(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def python(self) -> str | None: ...
    @property
    def scratch(self) -> ScratchChoice: ...
    @property
    def in_place(self) -> bool: ...
    @property
    def rerun(self) -> bool: ...
    @property
    def out(self) -> Path | None: ...


def run_variants(
    verb: Verb, variants: Sequence[Variant], args: Measured, control: bool = False, about: Interleaved | None = None
) -> Run:
    """Measure variants in interleaved runs until the precision is reached or the budget spent."""
    from hotlap.experiment.compare import run_interleaved

    budget, block = units.parse(args.budget, "seconds"), units.parse(args.block, "seconds")
    precision = units.parse(args.precision, "share")
    if args.blocks < 2 or args.warmup < 0 or min(budget, block, precision) <= 0:
        raise UsageError("--blocks must be at least 2, --warmup at least 0, --budget, --block and --precision more than 0")
    if not args.rerun:
        refuse_unsafe(variants, scratch_of(args))
    variants = [with_interpreter(variant, args.python) for variant in variants]
    schedule = Schedule(block, args.blocks, args.warmup, round=budget / 10, seed=args.seed)
    plan = Plan(budget, precision, control, schedule)
    with time_bar() as progress:
        task = progress.add_task(verb, total=budget)
        told = -_SAY_EVERY

        def on_progress(what: str, spent: float, total: float) -> None:
            nonlocal told
            progress.update(task, description=f"{verb}: {what}")
            if not progress.console.is_terminal and spent - told >= _SAY_EVERY:
                told = spent
                say(f"{units.seconds(spent)} of at most {units.seconds(total)}: {what}")

        return run_interleaved(
            verb,
            variants,
            plan,
            args.out,
            on_progress,
            scratch=scratch_of(args),
            rerun=args.rerun,
            in_time=True,
            interleaved=about or Interleaved(),
        )


def refuse_unsafe(variants: Sequence[Variant], scratch: str) -> None:
    """Scripts whose code does what a scratch cannot contain are not run many times. What it does to files is only told."""
    from hotlap.investigate import safety
    from hotlap.investigate.project import modules_of

    for script in dict.fromkeys(variant.target for variant in variants if isinstance(variant.target, Script)):
        objections = safety.objections(modules_of(script), in_place=scratch == "in-place", endless=False)
        if objections.reasons:
            details = "\n".join((*objections.reasons, *objections.contained))
            raise UsageError(f"{script.name} is not run many times, because that may not be safe; --rerun allows it", details)
        for line in objections.contained:
            say(f"{line}: the scratch contains that")


def scratch_of(args: Any) -> str:
    """Where a script runs: what --in-place and --scratch say."""
    if args.in_place and args.scratch != "auto":
        raise UsageError("--in-place and --scratch exclude each other")
    return "in-place" if args.in_place else str(args.scratch)


def show(report: Any, as_json: bool, page: bool = True) -> int:
    """Print a report; the exit code that its status asks for."""
    if as_json:
        print_json(report)
    else:
        from hotlap.report.commands import hotlap
        from hotlap.report.show import show_report

        show_report(report)
        if page:
            print(f"\nas a page: {hotlap('report', report.identity.run, '--format', 'html')}")
    return EXIT_CODES.get(report.identity.status, 0)
