"""The reports of sweeps: throughput against a knob, time against the work done, and how much of a delay shows up in it."""

from collections.abc import Sequence

from hotlap.core import stages, units
from hotlap.record.run import Identity
from hotlap.record.sweep import DelayReport, GrowthReport, Reached, Reading, Segment, SweepPoint, SweepReport
from hotlap.report.sections import (
    Cells,
    Notes,
    Plot,
    Section,
    Table,
    containment_rows,
    growth_sentence,
    growth_table,
    machine_rows,
    plain,
    singular,
    stage_name,
)

MAIN = 0.02  # share of the time from which a stage is drawn
MOST_COLUMNS = 6
MEANING = {
    Reading.NO_EFFECT: "throughput does not depend on it",
    Reading.LATENCY_BOUND: "a step costs the same for any batch size, so more at once is nearly free",
    Reading.PARTLY_LATENCY_BOUND: "part of the cost does not grow with the knob",
    Reading.WORK_BOUND: "cost grows with the work, throughput stays",
    Reading.CONTENDED: "more at once is slower: contention (cores, caches, memory)",
}


def headline(report: SweepReport | DelayReport | GrowthReport) -> str:
    over = "as work grows" if isinstance(report, GrowthReport) else f"over {', '.join(report.knobs)}"
    return f"sweep {report.identity.target} {over} · {report.identity.status}"


def _how(identity: Identity, scratch: str | None = None, containment: str | None = None) -> Table:
    rows = [*containment_rows(scratch, containment), *machine_rows(identity.machine), ("record", identity.run)]
    return Table("How it was measured", ("", ""), rows)


# -- a knob --


def sections(report: SweepReport) -> list[Section]:
    built: list[Section] = []
    if answer := _answer(report):
        built.append(Notes(answer, kind="result"))
    if report.warnings:
        built.append(Notes(report.warnings))
    built.append(_points(report))
    measured = [point for point in report.points if point.throughput]
    if report.scaling and len(measured) > 1:
        built += _curves(report, report.scaling.knob, measured)
    if measured:
        built.append(_stage_costs(report, measured))
    if report.growth:
        built.append(growth_table(report.growth, title="How an iteration's time grows with the work in it"))
    return [*built, _how(report.identity, report.scratch, report.containment)]


def _answer(report: SweepReport) -> list[str]:
    lines = [f"Fastest: {report.best}."] if report.best else []
    if scaling := report.scaling:
        knee = scaling.knee
        lines.append(f"Knee: {scaling.knob}={knee.value:g} gives {units.share(knee.of_best)} of the best throughput.")
        lines += [_segment(segment) for segment in _joined(scaling.segments)]
    return lines


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours that say the same as one."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last and (last.reading, last.collecting) == (segment.reading, segment.collecting):
            rates = last.updates_per_env_step, segment.updates_per_env_step
            ends = (rates[0][0], rates[1][1]) if rates[0] and rates[1] else None
            joined[-1] = Segment(last.low, segment.high, segment.slope, segment.reading, ends, segment.collecting)
        else:
            joined.append(segment)
    return joined


def _segment(segment: Segment) -> str:
    place = f"{segment.low:g} to {segment.high:g}"
    if segment.updates_per_env_step is None:
        return f"{place}: {segment.reading}; {MEANING.get(segment.reading, '')}"
    before, after = segment.updates_per_env_step
    alone = f"; collecting alone is {segment.collecting}: {MEANING[segment.collecting]}" if segment.collecting else ""
    return f"{place}: {before:.3g} to {after:.3g} updates per env step{alone}"


def _points(report: SweepReport) -> Table:
    best = max((point.throughput or 0.0 for point in report.points), default=0.0)
    columns = ("", f">{plain(report.unit)}/s", ">95%", ">of best", ">memory", ">steps per episode")
    return Table("Throughput", columns, [_point(point, best) for point in report.points])


def _point(point: SweepPoint, best: float) -> Cells:
    if not point.throughput or not point.ci95:
        return (point.name, "not measured", "", "", "", "")
    low, high = point.ci95
    length = point.work.env_steps_per_episode
    return (
        point.name,
        units.count(point.throughput),
        f"{units.count(low)}-{units.count(high)}",
        units.share(point.throughput / best),
        units.size(point.memory or 0.0),
        f"{length:.0f}" if length else "-",
    )


def _curves(report: SweepReport, knob: str, points: Sequence[SweepPoint]) -> list[Section]:
    ordered = sorted(points, key=lambda point: float(point.values[knob]))
    x = [float(point.values[knob]) for point in ordered]
    rates = [point.throughput or 0.0 for point in ordered]
    proportional = [rates[0] * value / x[0] for value in x]
    paths = sorted({path for point in ordered for path in point.stages}, key=stages.order)
    costs = {path: [1e6 * point.stages.get(path, 0.0) for point in ordered] for path in paths if _is_main(path, ordered)}
    per_second = f"{plain(report.unit)} per second"
    return [
        Plot("Throughput", "lines", knob, per_second, x, {"measured": rates, "in proportion": proportional}, log=True),
        Plot(f"Cost per {singular(report.unit)}, stage by stage", "lines", knob, "microseconds", x, costs, log=True),
    ]


def _is_main(path: str, points: Sequence[SweepPoint]) -> bool:
    return any(point.stages.get(path, 0.0) > MAIN * sum(point.stages.values()) for point in points)


def _stage_costs(report: SweepReport, points: Sequence[SweepPoint]) -> Table:
    paths = sorted({path for point in points for path in point.stages}, key=stages.order)
    shown = points if len(points) <= MOST_COLUMNS else [points[0], points[len(points) // 2], points[-1]]
    rows: list[Cells] = [(stage_name(path), *(units.seconds(point.stages.get(path, 0.0)) for point in shown)) for path in paths]
    names = [point.name for point in shown]
    if len(report.knobs) == 1:
        names = [name.partition("=")[2] for name in names]
    title = f"Time per {singular(report.unit)}, stage by stage, against {', '.join(report.knobs)}"
    return Table(title, ("", *(f">{name}" for name in names)), rows)


# -- growth --


def growth_sections(report: GrowthReport) -> list[Section]:
    what = plain(report.until)
    built: list[Section] = []
    if len(report.reached) > 1:
        reasons = [growth_sentence(reason) for reason in report.growth.why] if report.growth else []
        built.append(Notes([*_expectations(report.reached, what), *reasons], kind="result"))
    if report.warnings:
        built.append(Notes(report.warnings))
    columns = (f">{what}", ">time", ">in proportion", ">ratio", ">env steps", ">updates", ">expected by steps")
    built.append(Table(f"Time to reach a number of {what}", columns, [_reached(row) for row in report.reached]))
    if report.growth:
        built.append(growth_table(report.growth.rows))
    if report.curve.x:
        title, curve = f"Time and work against {what}", report.curve
        built.append(Plot(title, "lines", what, "relative to the end", curve.x, curve.series))
    return [*built, _how(report.identity)]


def _expectations(reached: Sequence[Reached], what: str) -> list[str]:
    first, last = reached[0], reached[-1]
    lines = [
        f"{last.count:,.0f} {what} took {units.seconds(last.seconds)}, {last.seconds / last.expected_seconds:.1f} times what "
        f"{first.count:,.0f} would make one expect ({units.seconds(last.expected_seconds)})."
    ]
    if by_steps := last.expected_by_steps:
        needed = f"{last.seconds / by_steps:.2f} times that were needed"
        lines.append(f"By env steps, {units.seconds(by_steps)} would be expected: {needed}.")
    if by_updates := last.expected_by_updates:
        lines.append(f"By updates, {units.seconds(by_updates)}: {last.seconds / by_updates:.2f} times that.")
    return lines


def _reached(row: Reached) -> Cells:
    return (
        f"{row.count:,.0f}",
        units.seconds(row.seconds),
        units.seconds(row.expected_seconds),
        f"{row.seconds / row.expected_seconds:.2f}x" if row.expected_seconds else "-",
        f"{row.env_steps:,.0f}",
        f"{row.updates:,.0f}",
        units.seconds(row.expected_by_steps) if row.expected_by_steps else "-",
    )


# -- delays --


def delay_sections(report: DelayReport) -> list[Section]:
    built: list[Section] = []
    if report.slope is not None:
        built.append(Notes([_slope(report, report.slope)], kind="result"))
    if report.warnings:
        built.append(Notes(report.warnings))
    rows: list[Cells] = [
        (
            point.name,
            units.seconds(point.injected),
            units.seconds(point.cost),
            "" if point.noticed is None else units.seconds(point.noticed),
        )
        for point in report.delayed
    ]
    built.append(Table(f"Delays, per {singular(report.unit)}", ("", ">added", ">cost", ">shows up"), rows))
    return [*built, _projections(report), _how(report.identity, report.scratch, report.containment)]


def _slope(report: DelayReport, slope: float) -> str:
    interval = f" (95% {report.slope_ci95[0]:.2f}-{report.slope_ci95[1]:.2f})" if report.slope_ci95 else ""
    reading = "it partly overlaps with other work" if slope > 0.2 else "it overlaps with other work"
    if slope > 0.8:
        reading = "it is on the critical path"
    return f"Of time added to {report.delay}, {slope:.0%} shows up in total time{interval}: {reading}."


def _projections(report: DelayReport) -> Table:
    rows: list[Cells] = []
    for row in report.projections:
        times = "gone" if row.times is None else f"{row.times:g}x faster"
        by_share, by_delay = (f"{units.ratio(gain)}x" if gain else "-" for gain in (row.by_share, row.by_delay))
        interval = "-".join(units.ratio(gain) if gain else "any" for gain in row.ci95) if row.ci95 else ""
        rows.append((times, by_share, by_delay, interval))
    note = f"{report.delay} has {units.share(report.share)} of the time" if report.share is not None else ""
    return Table("What a faster stage would give", ("", ">by its share", ">by the delays", ">95%"), rows, note)
