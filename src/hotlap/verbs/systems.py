"""hotlap systems."""

from dataclasses import dataclass

from hotlap.report.sections import Cells, Table
from hotlap.verbs.output import Switch, print_json, say


@dataclass(frozen=True)
class Systems:
    """List the systems that hotlap carries.

    Example: hotlap systems
    """

    json: Switch = False
    """Print one JSON document."""


def systems(args: Systems) -> int:
    from hotlap.report import terminal
    from hotlap.systems import every_system

    listed, problems = every_system()
    for problem in problems:
        say(problem)
    if args.json:
        described = {s.name: {"summary": s.summary, "algorithm": s.algorithm, "presets": s.preset_notes} for s in listed}
        print_json({"schema": "hotlap.systems/1", "systems": described})
        return 0
    rows: list[Cells] = []
    for system in listed:
        for number, (preset, note) in enumerate(system.preset_notes.items()):
            name, algorithm = ("", "") if number else (system.name, system.algorithm)
            rows.append((name, algorithm, preset, note))
    table = Table("Systems", ("name", "algorithm", "preset", "what it is"), rows, "hotlap train NAME, hotlap profile NAME")
    terminal.render("; ".join(f"{s.name}: {s.summary}" for s in listed), [table], terminal.Output())
    return 0
