"""hotlap systems."""

from dataclasses import dataclass
from typing import Any

from hotlap.report.sections import Cells, Table
from hotlap.train.system import RLSystem
from hotlap.verbs.output import Switch, print_json, say


@dataclass(frozen=True)
class Systems:
    """List the systems that hotlap carries: algorithms, presets, networks.

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
        print_json({"schema": "hotlap.systems/2", "systems": {system.name: _described(system) for system in listed}})
        return 0
    rows: list[Cells] = []
    for system in listed:
        names = iter([system.name])
        for algorithm, recipes in system.recipes.items():
            label = iter([algorithm])
            for preset, recipe in recipes.items():
                rows.append((next(names, ""), next(label, ""), preset, recipe.note))
    note = "hotlap train NAME [--algo ALGORITHM] [--preset PRESET]; the first of each is the default"
    summaries: list[Cells] = [(system.name, ", ".join(system.net_names), system.summary) for system in listed]
    tables = [
        Table("Systems", ("name", "--net", "what it is"), summaries),
        Table("Recipes", ("name", "--algo", "--preset", "what it does"), rows, note),
    ]
    terminal.render("What hotlap can train, beside environments of Gymnasium and PettingZoo", tables, terminal.Output())
    return 0


def _described(system: RLSystem) -> dict[str, Any]:
    return {
        "summary": system.summary,
        "algorithms": {
            algorithm: {"presets": {name: recipe.note for name, recipe in recipes.items()}}
            for algorithm, recipes in system.recipes.items()
        },
        "nets": system.net_names,
        "kernel": system.kernel,
    }
