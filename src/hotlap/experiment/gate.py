"""Saved runs against each other, and the gate for CI: slower than the baseline by more than is allowed, beyond doubt?

Runs that were not interleaved share neither the moment nor the process, so what differs between two runs of the same target is
part of the doubt. It is estimated from the runs given and, as they are few, from its usual size (`stats.PROCESS_NOISE`).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from scipy.special import stdtrit

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS, UPDATES
from hotlap.core.errors import UsageError
from hotlap.core.sample import Sample
from hotlap.core.text import printable
from hotlap.experiment.blocks import finite
from hotlap.experiment.rows import MEMORY, NOTHING, TINY, outcome_of, stage_order, time_per
from hotlap.record.baseline import CostSeries, read_baseline
from hotlap.record.blocks import VariantRecord
from hotlap.record.comparison import (
    Comparison,
    ComparisonReport,
    Contribution,
    GateReport,
    GateResult,
    GateVerdict,
    Row,
    RowKind,
)
from hotlap.record.counters import fill_worker_steps
from hotlap.record.header import Status, Verb
from hotlap.record.machine import Gpu, Machine
from hotlap.record.run import MEASURED, Identity, Run, load
from hotlap.record.series import unattributed

SCHEMA, COMPARE_SCHEMA = "hotlap.gate/2", "hotlap.compare/2"
FEW = 5  # windows below which a run says nothing
NANO = 1e-9


# -- saved runs --


def series_of(run: Run) -> CostSeries:
    """What a comparison needs of a run: the cost of its windows, in all and by stage. This is an entry of a baseline file."""
    header = run.header
    if header.verb not in (Verb.PROFILE, Verb.TRAIN):
        raise UsageError(f"{run.path} is a {header.verb}, not a profile or a training run")
    fill_worker_steps(run)
    _, steady = run.steady()
    if len(steady) < FEW:
        raise UsageError(f"{run.path} has {len(steady)} windows after warm-up; at least {FEW} are needed: measure longer")
    unit = next((u for u in (ENV_STEPS, UPDATES) if all(s.counts.get(u, 0) > 0 for s in steady)), None)
    if unit is None:
        raise UsageError(f"{run.path}: no window has env steps or updates in it, so there is no cost to compare")
    paths = [*sorted({path for s in steady for path in s.exclusive}, key=stages.order), stages.UNATTRIBUTED]
    machine = header.machine
    return CostSeries(
        target=header.target,
        created=header.created,
        config=header.config,
        unit=unit,
        whole=tuple(_short(s.wall * NANO / s.counts[unit]) for s in steady),
        stages={path: tuple(_short(_exclusive(s, path) * NANO / s.counts[unit]) for s in steady) for path in paths},
        memory=max(line.rss for line in run.lines),
        machine=Machine(
            cpu=machine.cpu,
            cores=machine.cores,
            usable_cores=machine.usable_cores,
            gpus=machine.gpus,
            python=machine.python,
            versions=machine.versions,
        ),
        verb=header.verb,
        status=run.status,
    )


def _exclusive(sample: Sample, path: str) -> int:
    return unattributed(sample) if path == stages.UNATTRIBUTED else sample.exclusive.get(path, 0)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def read_saved(path: str) -> tuple[CostSeries, ...]:
    """A baseline file, or a saved run."""
    return read_baseline(Path(path)) if Path(path).suffix == ".json" else (series_of(load(path, MEASURED)),)


def check_comparable(base: Sequence[CostSeries], new: Sequence[CostSeries], anyway: bool) -> list[str]:
    """Warnings about other differences between the runs; another unit is refused, and another machine unless `anyway`."""
    messages: list[str] = []
    for run in (*base[1:], *new):
        messages += [message for message in _differences(base[0], run, anyway) if message not in messages]
    incomplete = sorted({run.status for run in (*base, *new)} - {Status.DONE})
    if incomplete:
        messages.append(f"Not every run is complete: {', '.join(incomplete)}.")
    return messages


def _differences(a: CostSeries, b: CostSeries, anyway: bool) -> list[str]:
    if a.unit != b.unit:
        raise UsageError(f"one run counts {a.unit}, the other {b.unit}: their costs cannot be compared")
    messages = _other_machine(a.machine, b.machine, anyway)
    versions = [{"python": machine.python, **machine.versions} for machine in (a.machine, b.machine)]
    names = [name for name in sorted(versions[0].keys() | versions[1].keys()) if versions[0].get(name) != versions[1].get(name)]
    if names:
        changed = ", ".join(f"{name} {versions[0].get(name)} and {versions[1].get(name)}" for name in names)
        messages.append(f"Other versions: {changed}.")
    if a.target != b.target:
        messages.append(f"The runs are of different targets: {a.target} and {b.target}.")
    elif a.config != b.config:
        keys = sorted(key for key in a.config.keys() | b.config.keys() if a.config.get(key) != b.config.get(key))
        messages.append(f"The runs differ in their config: {', '.join(keys)}.")
    if a.verb != b.verb:
        messages.append(f"One is a {a.verb} run, the other a {b.verb} run.")
    missing = sorted(set(a.stages) ^ set(b.stages))
    if missing:
        messages.append(f"Stages that only one run has: {', '.join(missing)}.")
    return messages


def _other_machine(a: Machine, b: Machine, anyway: bool) -> list[str]:
    pairs = {
        "cpu": (a.cpu, b.cpu),
        "usable_cores": (f"{a.usable_cores:g}", f"{b.usable_cores:g}"),
        "gpus": (_gpu_names(a.gpus), _gpu_names(b.gpus)),
    }
    different = [f"{what} {old} and {now}" for what, (old, now) in pairs.items() if old != now]
    if not different:
        return []
    if not anyway:
        raise UsageError(f"the runs come from different machines ({'; '.join(different)}); --anyway compares them all the same")
    return [f"The runs come from different machines: {'; '.join(different)}."]


def _gpu_names(gpus: Sequence[Gpu]) -> str:
    return ", ".join(gpu.name for gpu in gpus) or "none"


# -- the comparison --


def effect(base: Sequence[Sequence[float]], new: Sequence[Sequence[float]], level: float = 0.95) -> stats.Effect:
    """The logarithm of base over new (above 0: new costs less), between groups of runs."""
    medians, variances = [], []
    for group in (base, new):
        logs = [np.log(values) for values in group]
        medians.append([float(np.median(values)) for values in logs])
        variances.append([stats.series_error(values) ** 2 for values in logs])
    freedom = sum(len(group) - 1 for group in medians)
    spread = sum(float(np.var(group)) * len(group) for group in medians)
    between = (stats.PRIOR * stats.PROCESS_NOISE**2 + spread) / (stats.PRIOR + freedom)
    error = float(np.sqrt(sum(sum(between + v for v in group) / len(group) ** 2 for group in variances)))
    value = float(np.mean(medians[0]) - np.mean(medians[1]))
    critical, power = (float(stdtrit(stats.PRIOR + freedom, p)) for p in ((1 + level) / 2, 0.8))
    runs = len(medians[0]) + len(medians[1])
    return stats.Effect(value, value - critical * error, value + critical * error, (critical + power) * error, runs, runs)


def compare_saved(
    base: Sequence[CostSeries], new: Sequence[CostSeries], names: tuple[str, str], anyway: bool
) -> ComparisonReport:
    """The report of a comparison, from saved runs."""
    warnings = check_comparable(base, new, anyway)
    warnings.append("The runs were not interleaved: the interval allows for the usual difference between runs.")
    unit, latest = base[0].unit, new[0]
    overall = effect([run.whole for run in base], [run.whole for run in new])
    totals = [float(np.mean([np.median(run.whole) for run in group])) for group in (base, new)]
    rows = (
        Row(**vars(outcome_of(overall)), kind=RowKind.WHOLE, name=time_per(unit), a=totals[0], b=totals[1], unit="seconds"),
        _memory_row(base, new),
        *_stage_rows(base, new, totals),
    )
    change = totals[1] / totals[0] - 1
    comparison = Comparison(
        **vars(outcome_of(overall)),
        a=names[0],
        b=names[1],
        rounds=overall.rounds,
        pairs=overall.pairs,
        rows=rows,
        change=change,
    )
    return ComparisonReport(
        **vars(outcome_of(overall)),
        schema=COMPARE_SCHEMA,
        identity=Identity(names[1], Verb.COMPARE, latest.target, Status.DONE, None, latest.created, latest.machine),
        unit=unit,
        baseline=names[0],
        rows=rows,
        comparisons=(comparison,),
        variants=tuple(VariantRecord(name) for name in names),
        warnings=tuple(warnings),
    )


def _memory_row(base: Sequence[CostSeries], new: Sequence[CostSeries]) -> Row:
    a, b = (float(np.mean([run.memory for run in group])) for group in (base, new))
    known = all(run.memory > 0 for run in (*base, *new))
    change = effect([[run.memory] for run in base], [[run.memory] for run in new]) if known else NOTHING
    return Row(**vars(outcome_of(change, words=MEMORY)), kind=RowKind.MEMORY, name="memory", a=a, b=b, unit="bytes")


def _stage_rows(base: Sequence[CostSeries], new: Sequence[CostSeries], totals: Sequence[float]) -> list[Row]:
    paths = sorted({path for run in (*base, *new) for path in run.stages}, key=stage_order)
    rows = [_stage_row(path, base, new, totals, 1 - 0.05 / len(paths)) for path in paths]
    return [row for row in rows if max(row.a or 0.0, row.b or 0.0) >= TINY * totals[0]]


def _stage_row(path: str, base: Sequence[CostSeries], new: Sequence[CostSeries], totals: Sequence[float], level: float) -> Row:
    a, b = ([run.stages.get(path, (0.0,)) for run in group] for group in (base, new))
    costs = [float(np.mean([np.mean(values) for values in group])) for group in (a, b)]
    both = all(min(values) > 0 for group in (a, b) for values in group)
    change = (costs[1] - costs[0]) / totals[0]
    total_change = totals[1] - totals[0]
    only = None if both else "A" if costs[0] > 0 >= costs[1] else "B" if costs[1] > 0 >= costs[0] else None
    return Row(
        **vars(outcome_of(effect(a, b, level) if both else NOTHING)),
        kind=RowKind.STAGE,
        name=path,
        a=costs[0],
        b=costs[1],
        unit="seconds",
        only=only,
        contribution=Contribution(finite(change)),
        share_of_change=(costs[1] - costs[0]) / total_change if total_change else None,
    )


# -- the gate --


def judge(report: ComparisonReport, max_slowdown: float) -> GateReport:
    """Pass, fail, or cannot tell: the whole interval of the slowdown against the limit."""
    verdict, slowdown, interval = GateVerdict.UNSURE, None, None
    if report.ratio and report.ci95 and min(report.ci95) > 0:
        low, high = (1 / limit - 1 for limit in reversed(report.ci95))
        slowdown, interval = 1 / report.ratio - 1, (low, high)
        verdict = GateVerdict.FAIL if low > max_slowdown else GateVerdict.PASS if high <= max_slowdown else GateVerdict.UNSURE
    comparison = replace(report, schema=SCHEMA, identity=replace(report.identity, verb=Verb.GATE))
    return GateReport(comparison, GateResult(verdict, slowdown, interval, max_slowdown))


def junit(report: GateReport) -> str:
    """The gate as a JUnit file: one case for the whole, one for each stage that says where the time went."""
    comparison, result = report.comparison, report.result
    cases = [row for row in comparison.rows if row.kind is not RowKind.MEMORY]
    failed = result.gate is GateVerdict.FAIL
    attributes = {"name": "hotlap gate", "tests": str(len(cases)), "failures": str(int(failed))}
    suite = ElementTree.Element("testsuite", attributes)
    for row in cases:
        names = {"classname": printable(f"hotlap.{comparison.identity.target}"), "name": printable(row.name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if failed and row is cases[0] and result.slowdown is not None and result.slowdown_ci95 is not None:
            low, high = result.slowdown_ci95
            text = f"{result.slowdown:+.1%} ({low:+.1%} to {high:+.1%}), allowed {result.max_slowdown:+.1%}"
            ElementTree.SubElement(case, "failure", {"message": f"slower than the baseline: {text}"})
        ratio = f"ratio {row.ratio:.4f}" if row.ratio else "no ratio"
        ElementTree.SubElement(case, "system-out").text = f"{ratio}; {row.verdict}"
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
