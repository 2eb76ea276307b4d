"""The report of a comparison."""

from hotlap.core import units
from hotlap.record.comparison import Comparison, ComparisonReport, Row, RowKind, Verdict
from hotlap.report import networks
from hotlap.report.sections import Cells, Notes, Plot, Section, Table, containment_rows, machine_rows, plain, stage_name


def headline(report: ComparisonReport) -> str:
    return f"{report.identity.verb} {report.identity.target} · {report.identity.status}"


def sections(report: ComparisonReport) -> list[Section]:
    built: list[Section] = [Notes([summary(comparison) for comparison in report.comparisons], kind="result")]
    if (control := report.control) and control.ratio and control.ci95:
        low, high = control.ci95
        built.append(
            Notes([f"Control: {report.baseline} against itself {control.ratio:.3f} ({low:.3f}-{high:.3f})."], kind="result")
        )
    if report.warnings:
        built.append(Notes(report.warnings))
    built += [_rows(comparison) for comparison in report.comparisons if comparison.pairs]
    if any(comparison.ratios for comparison in report.comparisons):
        built.append(_ratio_plot(report))
    if report.nets:
        built += networks.sections(report.nets)
    return [*built, _how(report)]


def summary(comparison: Comparison) -> str:
    """A comparison in one sentence."""
    a, b, ratio = comparison.a, comparison.b, comparison.ratio
    if ratio is None or comparison.ci95 is None or comparison.smallest_effect is None:
        return f"{b} against {a}: too few samples for a verdict ({comparison.rounds} rounds)."
    low, high = comparison.ci95
    interval = f"{units.ratio(ratio)}x as fast (95% {units.ratio(low)}-{units.ratio(high)})"
    seen = f"An effect of {units.share(comparison.smallest_effect)} would have been seen 4 times out of 5."
    return f"{b} is {interval} as {a}: {comparison.verdict}. {seen}"


def _rows(comparison: Comparison) -> Table:
    note = (
        "ratio: A's cost over B's, above 1 B needs less. of A: what a stage adds to or takes from A's whole time; "
        "stages are exclusive, and their verdicts hold together at 95%. none seen: no measurable difference."
    )
    if comparison.projected and comparison.ratio:
        projected, measured = units.ratio(comparison.projected), units.ratio(comparison.ratio)
        note += f" Amdahl, from A's shares and the stages' ratios: {projected}x; measured: {measured}x."
    title = f"A: {comparison.a}   B: {comparison.b}"
    columns = ("", ">A", ">B", ">ratio", ">95%", ">of A", "verdict")
    return Table(title, columns, [_row(row) for row in comparison.rows], note)


def _row(row: Row) -> Cells:
    show = units.size if row.unit == "bytes" else units.seconds
    name = stage_name(row.name, 1 + row.name.count("/")) if row.kind is RowKind.STAGE else row.name
    values = [show(value) if value else "-" for value in (row.a, row.b)]
    ratio = f"{units.ratio(row.ratio)}x" if row.ratio else f"only in {row.only}" if row.only else "-"
    interval = f"{units.ratio(row.ci95[0])}-{units.ratio(row.ci95[1])}" if row.ratio and row.ci95 else ""
    part = row.contribution
    share = "" if part is None or part.value is None else f"{part.value:+.1%}"
    return (name, *values, ratio, interval, share, "none seen" if row.verdict is Verdict.SAME else str(row.verdict))


def _ratio_plot(report: ComparisonReport) -> Plot:
    series, bands = {}, {}
    for comparison in report.comparisons:
        name = f"{comparison.b} against {comparison.a}"
        series[name] = [ratio for ratios in comparison.ratios for ratio in ratios]
        if comparison.ratio and comparison.ci95:
            bands[name] = (comparison.ratio, *comparison.ci95)
    number = [float(i) for i in range(1, max(map(len, series.values())) + 1)]
    return Plot("Paired ratios, block by block", "dots", "pair", "A's cost / B's cost", number, series, bands=bands)


def _how(report: ComparisonReport) -> Table:
    rows: list[Cells] = []
    for comparison in report.comparisons:
        pairs = f"{comparison.rounds} rounds of fresh processes, {comparison.pairs} pairs"
        rows.append((comparison.b, pairs if report.plan else f"{comparison.rounds} saved runs in all"))
        a, b = comparison.work.a.per_second, comparison.work.b.per_second
        if a and b:
            rows.append(("throughput", f"A {units.count(a)}, B {units.count(b)} {plain(report.unit)} per second"))
    if plan := report.plan:
        schedule = plan.schedule
        rows.append(("blocks", f"{schedule.blocks} of at least {units.seconds(schedule.block)} per round, in random order"))
        limit = f"at an interval of {units.share(plan.precision)} either side, or after {units.seconds(plan.budget)}"
        rows.append(("stops", limit))
    rows += [*containment_rows(report.scratch, report.containment), *machine_rows(report.identity.machine)]
    return Table("How it was measured", ("", ""), [*rows, ("record", report.identity.run)])
