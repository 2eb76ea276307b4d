"""The what-if curves of a profile: the changes that would matter, with what they cost on copies of the script's own objects."""

from hotlap.core import units
from hotlap.record.what_if import Change, Cost, CostCurve, EnvLayer, WhatIfCurves
from hotlap.report.sections import Cells, Section, Table

MATTERS = 1.1  # times less per row, or for the same work, from which a change is shown
_BY_ROW = (Change.ACTING_ROWS, Change.LEARNING_ROWS)


def sections(measured: WhatIfCurves) -> list[Section]:
    rows = [row for curve in measured.curves if (row := _row(curve)) is not None]
    built: list[Section] = []
    if rows:
        note = f"on copies of the script's objects, in {units.seconds(measured.seconds)}, when it was stopped"
        built.append(Table("What if", ("change", ">saves", "of", "now, and then"), rows, note))
    if len(measured.layers) > 1:
        built.append(_layers(measured.layers))
    return built


def gain(curve: CostCurve, cost: Cost) -> float:
    """How many times less the work costs, by the row where the number of rows is what changes."""
    first = curve.costs[0]
    rows = cost.size / first.size if curve.change in _BY_ROW and first.size else 1.0
    return rows * first.seconds / cost.seconds if cost.seconds > 0 else 1.0


def _row(curve: CostCurve) -> Cells | None:
    """The form that saves most; None if none saves enough to matter."""
    best = max(curve.costs[1:], key=lambda cost: gain(curve, cost), default=None)
    if best is None or gain(curve, best) < MATTERS:
        return None
    each = " per row" if curve.change in _BY_ROW else ""
    now, then = (f"{cost.form}: {units.seconds(cost.seconds)}" for cost in (curve.costs[0], best))
    return curve.change.value, f"{units.ratio(gain(curve, best))}x{each}", curve.what, f"{now}, {then}"


def _layers(layers: tuple[EnvLayer, ...]) -> Table:
    total = sum(layer.seconds for layer in layers)
    rows: list[Cells] = [
        ("  " * depth + layer.name, units.count(layer.calls), units.seconds(layer.seconds), units.share(layer.seconds / total))
        for depth, layer in enumerate(layers)
    ]
    note = "exclusive, per step of the outermost, in one window"
    return Table("Layers of the environment", ("", ">calls", ">time", ">share"), rows if total else [], note)
