"""hotlap report."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hotlap.core.errors import UsageError
from hotlap.core.text import printable
from hotlap.record.run import load
from hotlap.verbs.output import Switch, say


@dataclass(frozen=True)
class Report:
    """Render a saved run.

    Example: hotlap report latest --format html
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = "latest"
    """A run's folder, its id, or "latest"."""
    format: str = "terminal"
    """terminal, md or json, which go to stdout; html, trace (for Perfetto), speedscope or tensorboard, which go to files; or
    a format of a plugin."""
    breakdown: bool = True
    """Open collect and update into the stages inside them."""
    output: Path | None = None
    """File to write (for tensorboard, a folder); if not given, one in the run's folder."""
    json: Switch = False
    """The same as --format json."""


def report(args: Report) -> int:
    from hotlap.report import terminal
    from hotlap.report.formats import TERMINAL, formats
    from hotlap.report.show import noun_of, report_of

    known = formats()
    for problem in known.problems:
        say(problem)
    name = "json" if args.json else args.format
    if name not in known.renderers:
        raise UsageError(f"--format {name}: choose one of {', '.join(known.renderers)}")
    renderer = known.renderers[name]
    run = load(args.run)
    built = report_of(noun_of(run), run, args.breakdown)
    if args.output is None and name == TERMINAL:
        terminal.render(built.title, built.sections, terminal.Output())
    elif args.output is None and renderer.to_stdout and renderer.render is not None:
        sys.stdout.write(renderer.render(built))
    else:
        path = args.output or run.path / f"{renderer.stem}{renderer.suffix}"
        renderer.write(built, path)
        print(printable(str(path)))
    return 0
