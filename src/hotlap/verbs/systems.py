"""hotlap systems."""

from dataclasses import dataclass
from typing import Any

from hotlap.verbs.output import Switch, print_json


@dataclass(frozen=True)
class Systems:
    """List the systems that hotlap carries.

    Example: hotlap systems
    """

    json: Switch = False
    """Print one JSON document."""


def systems(args: Systems) -> int:
    from hotlap.report import terminal
    from hotlap.report.sections import Table
    from hotlap.systems import NAMES, load

    found = [load(name) for name in NAMES]
    if args.json:
        print_json(
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
