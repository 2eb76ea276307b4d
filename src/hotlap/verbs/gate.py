"""hotlap gate."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hotlap.core import units
from hotlap.core.errors import UsageError
from hotlap.record.baseline import CostSeries, write_baseline
from hotlap.record.comparison import GateVerdict
from hotlap.record.run import write_atomically
from hotlap.verbs.output import Switch, print_json, say


@dataclass(frozen=True)
class Gate:
    """Fail if a run is slower than its baseline by more than is allowed, with statistical confidence. For CI.

    Example: hotlap gate latest --baseline baseline.json --max-slowdown 5%

    Example: hotlap gate RUN1 RUN2 RUN3 --save baseline.json
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Saved profiles of the new state; several give a narrower interval than one."""
    baseline: str | None = None
    """A saved run, or a baseline file."""
    max_slowdown: str = "5%"
    """The largest slowdown allowed."""
    save: Path | None = None
    """Write these runs to a baseline file, small enough to live in git."""
    junit: Path | None = None
    """Also write the verdict as a JUnit file."""
    markdown: Path | None = None
    """Also write the comparison as Markdown."""
    anyway: Switch = False
    """Compare runs even if they come from different machines."""
    json: Switch = False
    """Print one JSON document."""


def gate(args: Gate) -> int:
    from hotlap.experiment import gate as gating
    from hotlap.report import gate as sections
    from hotlap.report import markdown, terminal

    limit = units.parse(args.max_slowdown, "share")
    if limit < 0 or not (args.baseline or args.save):
        raise UsageError("gate needs --baseline RUN or FILE, or --save FILE to make one; --max-slowdown must not be negative")
    if not args.runs:
        raise UsageError("gate needs the run to judge: hotlap gate latest --baseline baseline.json")
    new = [series for run in args.runs for series in gating.read_saved(run)]
    if not args.baseline:
        return _save_baseline(args, new)
    report = gating.compare_saved(gating.read_saved(args.baseline), new, (args.baseline, " ".join(args.runs)), args.anyway)
    result = gating.judge(report, limit)
    title, shown = sections.headline(result), sections.sections(result)
    if args.junit:
        write_atomically(args.junit, gating.junit(result))
    if args.markdown:
        write_atomically(args.markdown, markdown.render(title, shown))
    if args.json:
        print_json(result)
    else:
        terminal.render(title, shown, terminal.Output())
    if args.save:
        _save_baseline(args, new, quiet=True)
    return 1 if result.result.gate is GateVerdict.FAIL else 0


def _save_baseline(args: Gate, runs: Sequence[CostSeries], quiet: bool = False) -> int:
    assert args.save is not None
    write_baseline(args.save, runs)
    if args.json and not quiet:
        print_json({"schema": "hotlap.gate/2", "baseline": str(args.save), "runs": len(runs)})
    else:
        say(f"baseline of {len(runs)} run{'s' if len(runs) > 1 else ''}: {args.save}")
    return 0
