"""hotlap report."""

import json
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from hotlap.core.errors import UsageError
from hotlap.record.run import load
from hotlap.verbs.output import Switch, write


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
    from hotlap.record.summary import document
    from hotlap.report import comparison, html, investigation, markdown, terminal, trace
    from hotlap.report import sections as content
    from hotlap.verbs import compare

    run = load(args.run)
    kind = "json" if args.json else args.format
    investigated = investigation.document(run) if run.header["verb"] == "investigate" else None
    compared = investigated or compare.report_document(run)
    if compared and kind in ("trace", "speedscope", "tensorboard"):
        raise UsageError(f"--format {kind}: only for profiles and training runs, not for a {run.header['verb']}")
    if kind == "trace":
        return write(args.output or run.path / "trace.json", json.dumps(trace.render(run)))
    if kind == "speedscope":
        return write(args.output or run.path / "speedscope.json", json.dumps(trace.speedscope(run)))
    if kind == "tensorboard":
        print(trace.tensorboard(run, args.output or run.path / "tensorboard"))
        return 0
    if compared:
        doc, words = compared, investigation if investigated else comparison
        title, sections = words.headline(doc), words.sections(doc)
    else:
        doc = document(run)
        title, sections = content.headline(doc), content.sections(doc, args.breakdown)
    if kind == "terminal" and args.output is None:
        terminal.render(title, sections, terminal.Output())
        return 0
    if kind == "html":
        return write(args.output or run.path / "report.html", html.render(title, sections))
    if kind == "terminal":
        text = StringIO()
        terminal.render(title, sections, Console(file=text, width=120))
        return write(args.output, text.getvalue())  # type: ignore[arg-type]
    text_out = json.dumps(doc, indent=2) + "\n" if kind == "json" else markdown.render(title, sections)
    if args.output:
        return write(args.output, text_out)
    sys.stdout.write(text_out)
    return 0
