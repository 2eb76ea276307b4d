"""hotlap diagnose."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from hotlap.core.errors import UsageError
from hotlap.record.run import MEASURED, load
from hotlap.verbs.output import Switch, print_json


@dataclass(frozen=True)
class Diagnose:
    """Name what makes a profiled run slow, with evidence. Runs nothing: see `hotlap investigate`.

    Example: hotlap profile train.py && hotlap diagnose latest
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = "latest"
    """A profile's folder, its id, or "latest"."""
    json: Switch = False
    """Print one JSON document."""


def diagnose(args: Diagnose) -> int:
    from hotlap import causes

    run = load(args.run, MEASURED)
    if run.header.verb not in MEASURED:
        raise UsageError(f"{args.run} is a {run.header.verb}; diagnose a profile: hotlap profile TARGET")
    diagnosis = causes.diagnose(run)
    if args.json:
        print_json(diagnosis)
        return 0
    from hotlap.report import findings, terminal

    terminal.render(findings.headline(diagnosis), findings.sections(diagnosis), terminal.Output())
    return 0
