"""Saved runs against each other, and the gate for CI: slower than the baseline by more than is allowed, beyond doubt?

Runs that did not take turns share neither the moment nor the process, so what differs between two runs of the same thing is
part of the doubt. It is estimated from the runs given and, as they are few, from its usual size (`stats.PROCESS_NOISE`).
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.special import stdtrit

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS, UPDATES
from hotlap.core.errors import RecordError, UsageError
from hotlap.core.sample import Sample
from hotlap.experiment import compare
from hotlap.record.counters import fill_worker_steps
from hotlap.record.run import Run, load, write_atomically

SCHEMA = "hotlap.baseline/1"
FEW = 5  # windows below which a run says nothing
PASS, FAIL, UNSURE = "pass", "FAIL", "cannot tell"


def series_of(run: Run) -> dict[str, Any]:
    """What a comparison needs of a run: the cost of its windows, in all and by stage. This is an entry of a baseline file."""
    header = run.header
    if header["verb"] not in ("profile", "train"):
        raise UsageError(f"{run.path} is a {header['verb']}, not a profile or a training run")
    _, steady = run.steady()
    if len(steady) < FEW:
        raise UsageError(f"{run.path} has {len(steady)} windows after warm-up; at least {FEW} are needed: measure longer")
    fill_worker_steps(run)
    unit = next((u for u in (ENV_STEPS, UPDATES) if all(s.counts.get(u) for s in steady)), None)
    if unit is None:
        raise UsageError(f"{run.path}: no window has env steps or updates in it, so there is no cost to compare")
    amounts = [s.counts[unit] for s in steady]
    paths = [*sorted({path for s in steady for path in s.own}, key=stages.order), stages.UNATTRIBUTED]
    return {
        "target": header["target"],
        "verb": header["verb"],
        "created": header["created"],
        "status": header["status"],
        "config": header["config"],
        "unit": unit,
        "whole": [_short(s.wall * 1e-9 / n) for s, n in zip(steady, amounts, strict=True)],
        "stages": {p: [_short(_own(s, p) * 1e-9 / n) for s, n in zip(steady, amounts, strict=True)] for p in paths},
        "memory": max(line.rss for line in run.lines),
        "machine": {key: header["machine"].get(key) for key in ("cpu", "cores", "usable_cores", "gpus", "python", "versions")},
    }


def _own(sample: Sample, path: str) -> int:
    if path != stages.UNATTRIBUTED:
        return sample.own.get(path, 0)
    return sample.wall - sum(total for name, total in sample.total.items() if stages.parent(name) is None)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def read_side(path: str) -> list[dict[str, Any]]:
    """A baseline file, or a saved run."""
    if Path(path).suffix != ".json":
        return [series_of(load(path))]
    try:
        found = json.loads(Path(path).read_text())
    except OSError as error:
        raise RecordError(f"cannot read the baseline {path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        schema = found.get("schema") if isinstance(found, dict) else None
        raise RecordError(f"{path} has schema {schema!r}; this version of hotlap reads {SCHEMA!r}")
    runs = found.get("runs")
    needed = {
        "target": str,
        "created": str,
        "config": dict,
        "unit": str,
        "whole": list,
        "stages": dict,
        "memory": int,
        "machine": dict,
    }
    if not isinstance(runs, list) or not runs:
        raise RecordError(f"{path} is damaged: it has no runs")
    for run in runs:
        wrong = [name for name, kind in needed.items() if not isinstance(run, dict) or not isinstance(run.get(name), kind)]
        if wrong or not all(isinstance(value, int | float) and value > 0 for value in run["whole"]) or not run["whole"]:
            raise RecordError(f"{path} is damaged: a run lacks {', '.join(wrong) or 'costs above 0'}")
    return runs


def write_baseline(path: Path, runs: Sequence[dict[str, Any]]) -> None:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    write_atomically(path, json.dumps({"schema": SCHEMA, "created": created, "runs": list(runs)}, indent=1) + "\n")


def check_comparable(base: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], anyway: bool) -> list[str]:
    """Warnings about what differs beside the thing itself; another machine or unit is refused, unless told otherwise."""
    warnings: list[str] = []
    for run in (*base[1:], *new):
        warnings += [said for said in _differences(base[0], run, anyway) if said not in warnings]
    ended = [run.get("status", "done") for run in (*base, *new)]
    if any(status != "done" for status in ended):
        warnings.append(f"Not every run is complete: {', '.join(sorted(set(ended) - {'done'}))}.")
    return warnings


def _differences(a: dict[str, Any], b: dict[str, Any], anyway: bool) -> list[str]:
    warnings = []
    old, now = a["machine"], b["machine"]
    refused = [
        f"{key} {_say(old.get(key))} and {_say(now.get(key))}"
        for key in ("cpu", "usable_cores", "gpus")
        if _say(old.get(key)) != _say(now.get(key))
    ]
    if a["unit"] != b["unit"]:
        raise UsageError(f"one run counts {a['unit']}, the other {b['unit']}: their costs cannot be compared")
    if refused and not anyway:
        raise UsageError(f"the runs come from different machines ({'; '.join(refused)}); --anyway compares them all the same")
    if refused:
        warnings.append(f"The runs come from different machines: {'; '.join(refused)}.")
    versions = [{"python": side.get("python"), **(side.get("versions") or {})} for side in (old, now)]
    names = [name for name in sorted(versions[0].keys() | versions[1].keys()) if versions[0].get(name) != versions[1].get(name)]
    if names:
        changed = ", ".join(f"{name} {versions[0].get(name)} and {versions[1].get(name)}" for name in names)
        warnings.append(f"Other versions: {changed}.")
    if a["target"] != b["target"]:
        warnings.append(f"The runs are of different targets: {a['target']} and {b['target']}.")
    elif a["config"] != b["config"]:
        keys = sorted(k for k in a["config"].keys() | b["config"].keys() if a["config"].get(k) != b["config"].get(k))
        warnings.append(f"The runs differ in their config: {', '.join(keys)}.")
    if a.get("verb") != b.get("verb"):
        warnings.append(f"One is a {a.get('verb')} run, the other a {b.get('verb')} run.")
    missing = sorted(set(a["stages"]) ^ set(b["stages"]))
    if missing:
        warnings.append(f"Stages that only one side has: {', '.join(missing)}.")
    return warnings


def _say(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item.get("name", item)) if isinstance(item, dict) else str(item) for item in value) or "none"
    return str(value)


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
    base: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], names: tuple[str, str], anyway: bool
) -> dict[str, Any]:
    """The document of a comparison, from saved runs."""
    warnings = check_comparable(base, new, anyway)
    warnings.append("The runs did not take turns on the machine: the interval allows for the usual difference between runs.")
    unit = base[0]["unit"]
    whole = effect([run["whole"] for run in base], [run["whole"] for run in new])
    totals = [float(np.mean([np.median(run["whole"]) for run in side])) for side in (base, new)]
    name = f"time per {unit.removesuffix('s').replace('_', ' ')}"
    rows = [compare.as_row(whole, {"kind": "whole", "name": name, "a": totals[0], "b": totals[1], "unit": "seconds"})]
    most = [float(np.mean([run["memory"] for run in side])) for side in (base, new)]
    memory = effect([[run["memory"]] for run in base], [[run["memory"]] for run in new])
    row = {"kind": "memory", "name": "memory", "a": most[0], "b": most[1], "unit": "bytes"}
    rows.append(compare.as_row(memory, row, words=(compare.SMALLER, compare.LARGER)))
    every = {path for run in (*base, *new) for path in run["stages"]}
    paths = sorted(every, key=lambda path: (path == stages.UNATTRIBUTED, stages.order(path)))
    for path in paths:
        a, b = ([run["stages"].get(path, [0.0]) for run in side] for side in (base, new))
        own = [float(np.mean([np.mean(values) for values in side])) for side in (a, b)]
        if max(own) < compare.TINY * totals[0]:
            continue
        both = all(min(values) > 0 for side in (a, b) for values in side)
        found = effect(a, b, 1 - 0.05 / len(paths)) if both else stats.Effect(float("nan"), -np.inf, np.inf, np.inf, 0, 0)
        row = compare.as_row(found, {"kind": "stage", "name": path, "a": own[0], "b": own[1], "unit": "seconds"})
        if not both:
            row["only"] = "A" if own[0] > 0 >= own[1] else "B" if own[1] > 0 >= own[0] else None
        change = (own[1] - own[0]) / totals[0]
        share = change * totals[0] / (totals[1] - totals[0]) if totals[1] != totals[0] else None
        rows.append(row | {"contribution": {"value": change, "ci95": None}, "share_of_change": share})
    headline = compare.as_row(whole, {})
    comparison = {"a": names[0], "b": names[1], **headline, "rounds": whole.rounds, "pairs": whole.pairs, "rows": rows}
    comparison |= {
        "change": totals[1] / totals[0] - 1,
        "projected": None,
        "work": {"a": {}, "b": {}},
        "ratios": [],
        "ratio_of_totals": None,
    }
    return {
        "schema": "hotlap.compare/1",
        "run": names[1],
        "verb": "compare",
        "target": new[0]["target"],
        "status": "done",
        "error": None,
        "created": new[0]["created"],
        "unit": unit,
        "baseline": names[0],
        **headline,
        "rows": rows,
        "comparisons": [comparison],
        "control": None,
        "plan": None,
        "sides": [{"name": name} for name in names],
        "machine": new[0]["machine"],
        "warnings": warnings,
    }


def judge(doc: dict[str, Any], max_slowdown: float) -> dict[str, Any]:
    """Pass, fail, or cannot tell: the whole interval of the slowdown against the limit."""
    low, high = (1 / limit - 1 for limit in reversed(doc["ci95"]))
    slowdown = 1 / doc["ratio"] - 1
    verdict = FAIL if low > max_slowdown else PASS if high <= max_slowdown else UNSURE
    return {"gate": verdict, "slowdown": slowdown, "slowdown_ci95": [low, high], "max_slowdown": max_slowdown}


def junit(doc: dict[str, Any], verdict: dict[str, Any]) -> str:
    """The gate as a JUnit file: one case for the whole, one for each stage that says where the time went."""
    cases = [row for row in doc["rows"] if row["kind"] in ("whole", "stage")]
    failed = verdict["gate"] == FAIL
    attributes = {"name": "hotlap gate", "tests": str(len(cases)), "failures": str(int(failed))}
    suite = ElementTree.Element("testsuite", attributes)
    for row in cases:
        case = ElementTree.SubElement(suite, "testcase", {"classname": f"hotlap.{doc['target']}", "name": row["name"]})
        if failed and row is cases[0]:
            low, high = verdict["slowdown_ci95"]
            text = f"{verdict['slowdown']:+.1%} ({low:+.1%} to {high:+.1%}), allowed {verdict['max_slowdown']:+.1%}"
            ElementTree.SubElement(case, "failure", {"message": f"slower than the baseline: {text}"})
        ratio = f"ratio {row['ratio']:.4f}" if row["ratio"] else "no ratio"
        ElementTree.SubElement(case, "system-out").text = f"{ratio}; {row['verdict']}"
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
