"""Comparisons: targets raced in turns (`race.py`), and what the blocks say about them.

A ratio is the cost of A over the cost of B, so above 1 B needs less: less time, less memory. Costs are per environment step
where steps are counted. How the interval is made: `stats.rounds_effect`.
"""

import signal
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core import machine, stages, stats
from hotlap.core.counts import ENV_STEPS, EPISODES, ITERATIONS, UPDATES, WINDOWS
from hotlap.core.errors import RecordError, TargetFailed, UsageError
from hotlap.experiment.blocks import (
    Rounds,
    blocks_of,
    cost,
    ending,
    every_block,
    median_of,
    merged,
    paired,
    shares,
    stage_cost,
    total_cost,
    unit_of,
)
from hotlap.experiment.interleave import Options, Side, Turn, race, read_turns
from hotlap.record.run import Run, strict_reading

FASTER, SLOWER, SAME, TOO_FEW = "faster", "slower", "no measurable difference", "too few samples"
SMALLER, LARGER = "smaller", "larger"
CONTROL = "control: "  # before the name of a side that runs once more, against itself
MIN_ROUNDS = 4  # before the interval is asked whether it is narrow enough
NARROW = 0.05  # an interval wider than this that holds 1 says nothing
OUTLIER = 1.5  # times the median of its side
TINY = 0.001  # of the whole: stages below this are left out

OnProgress = Callable[[str, float, float], None]  # (what goes on, seconds spent, of how many)


@dataclass(frozen=True)
class Plan:
    """How long to go on: until every interval is this narrow, or the time is spent."""

    budget: float = 120.0
    precision: float = 0.02
    control: bool = True
    race: Options = field(default_factory=Options)
    clear: float | None = (
        None  # stop after two rounds if every interval lies wholly beyond this effect, or within the precision
    )


def run_race(
    verb: str,
    sides: Sequence[Side],
    plan: Plan,
    out: Path | None = None,
    on_progress: OnProgress = lambda *_: None,
    **fields: Any,
) -> Run:
    """Race the sides; the record. What goes wrong, or Ctrl-C, ends it and keeps what was measured."""
    if len(sides) < 2:
        raise UsageError(f"{verb} needs at least two things to tell apart")
    racing = list(sides)
    if plan.control:
        racing.append(replace(sides[0], name=CONTROL + sides[0].name))
    targets = list(dict.fromkeys(side.target for side in sides))
    config = {"plan": asdict(plan), "sides": [side.facts() for side in sides]}
    run = Run.create(verb, " and ".join(targets), config, machine.facts(), out, **fields)
    began = time.monotonic()

    def on_turn(number: int, turn: int, what: str) -> None:
        shown = f"round {number}, {what}" if turn == 0 else f"round {number}, turn {turn} of {plan.race.turns}: {what}"
        on_progress(shown, time.monotonic() - began, plan.budget)

    turns: list[Turn] = []
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, done in enumerate(race(run, racing, plan.race, on_turn, drop=verb == "sweep"), 1):
            turns += done
            spent = time.monotonic() - began
            unit = unit_of(turns)
            if unit == WINDOWS:
                raise TargetFailed(f"there is nothing to compare by: {_counted(turns)}")
            effects = [headline(turns, sides[0].name, side.name, unit) for side in sides[1:]]
            narrow = number >= MIN_ROUNDS and all(effect.width <= plan.precision for effect in effects)
            if (
                narrow
                or (number > 1 and all(_is_clear(effect, plan) for effect in effects))
                or spent + spent / number > plan.budget
            ):
                break
        run.finish("done")
    except KeyboardInterrupt:
        run.finish("interrupted")
    except (TargetFailed, RecordError) as error:
        with suppress(RecordError):  # a full disk, perhaps
            run.finish("failed", error=str(error))
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
    return run


def _is_clear(effect: stats.Effect, plan: Plan) -> bool:
    if plan.clear is None:
        return False
    return effect.low > plan.clear or effect.high < -plan.clear or effect.width <= plan.precision


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _counted(turns: Sequence[Turn]) -> str:
    """What each side counted, in words."""
    said = []
    for side in dict.fromkeys(turn.side for turn in turns):
        counts = {
            what for turn in turns if turn.side == side for what in (ENV_STEPS, UPDATES) if turn.block["counts"].get(what)
        }
        words = " and ".join(sorted(what.replace("_", " ") for what in counts))
        said.append(f"{side} made {words or 'no env steps and no updates that hotlap saw'}")
    return "; ".join(said)


# -- what the blocks say --


def headline(turns: Sequence[Turn], a: str, b: str, unit: str, level: float = 0.95) -> stats.Effect:
    """The logarithm of how many times faster B is than A."""
    rounds = paired(blocks_of(turns, a), blocks_of(turns, b), lambda x, y: _log(cost(x, unit), cost(y, unit)))
    return _effect(rounds, level)


def _log(a: float, b: float) -> float:
    return float(np.log(a / b)) if a > 0 and b > 0 else float("nan")


def _effect(rounds: list[list[float]], level: float = 0.95) -> stats.Effect:
    if not rounds:
        return stats.Effect(float("nan"), -np.inf, np.inf, np.inf, 0, 0)
    return stats.rounds_effect(rounds, level)


def verdict(effect: stats.Effect, words: tuple[str, str] = (FASTER, SLOWER), narrow: float = NARROW) -> str:
    if effect.low > 0:
        return words[0]
    if effect.high < 0:
        return words[1]
    return SAME if effect.width <= narrow else TOO_FEW


def document(run: Run) -> dict[str, Any]:
    """What a comparison found, as plain data: each side against the first."""
    with strict_reading(run.path):
        turns = read_turns(run.path)
        names = [side["name"] for side in run.header["config"]["sides"]]
        first, *others = names
        precision = run.header["config"]["plan"]["precision"]
        unit = unit_of(turns)
        comparisons = [compare_blocks(turns, first, other, unit, precision) for other in others]
        control = None
        if any(turn.side == CONTROL + first for turn in turns):
            control = as_row(headline(turns, first, CONTROL + first, unit), {})
        found = {
            "schema": "hotlap.compare/1",
            **run.facts(),
            "unit": unit,
            "baseline": first,
            **{name: comparisons[0][name] for name in ("verdict", "ratio", "ci95", "smallest_effect", "rows")},
            "comparisons": comparisons,
            "control": control,
            "plan": run.header["config"]["plan"],
            "sides": run.header["config"]["sides"],
        }
        found["warnings"] = _warnings(run, found, turns)
    return found


def compare_blocks(turns: Sequence[Turn], first: str, second: str, unit: str, precision: float) -> dict[str, Any]:
    """One side against the first: the whole, memory, and every stage with what it contributes to the change."""
    a, b = blocks_of(turns, first), blocks_of(turns, second)
    whole = headline(turns, first, second, unit)
    rows = [_row("whole", f"time per {_singular(unit)}", a, b, partial(cost, unit=unit))]
    every = [*every_block(a), *every_block(b)]
    others = [other for other in (UPDATES, ITERATIONS) if other != unit and all(cost(block, other) > 0 for block in every)]
    rows += [_row("whole", f"time per {_singular(other)}", a, b, partial(cost, unit=other)) for other in others]
    rows.append(_memory_row(a, b))
    both = [shares(side) for side in (a, b)]
    paths = {path for share in both for path, part in share.items() if part > TINY}
    level = 1 - 0.05 / max(len(paths), 1)  # many stages are looked at: all their verdicts together hold at 95%
    total = _effect(paired(a, b, lambda x, y: (cost(y, unit) - cost(x, unit)) / cost(x, unit)))
    ordered = sorted(paths, key=lambda path: (path == stages.UNATTRIBUTED, stages.order(path)))
    rows += [_stage_row(path, a, b, unit, level, total.value) for path in ordered]
    found = {
        "a": first,
        "b": second,
        **as_row(whole, {}, precision),
        "rounds": whole.rounds,
        "pairs": whole.pairs,
        "rows": rows,
        "change": total.value,
        "projected": _projected(both[0], rows),
        "ratio_of_totals": total_cost(a, unit) / total_cost(b, unit),
        "work": {name: _work(side, unit) for name, side in (("a", a), ("b", b))},
        "ratios": paired(a, b, lambda x, y: cost(x, unit) / cost(y, unit)),
    }
    clean: dict[str, Any] = finite(found)
    return clean


def _row(kind: str, name: str, a: Rounds, b: Rounds, of: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
    effect = _effect(paired(a, b, lambda x, y: _log(of(x), of(y))))
    return as_row(effect, {"kind": kind, "name": name, "a": median_of(a, of), "b": median_of(b, of), "unit": "seconds"})


def _memory_row(a: Rounds, b: Rounds) -> dict[str, Any]:
    """Memory grows within a process, so each round has one pair: the most of either."""
    peaks = [{n: max(block["rss"] for block in blocks.values()) for n, blocks in side.items() if blocks} for side in (a, b)]
    rounds = [[_log(peaks[0][n], peaks[1][n])] for n in sorted(peaks[0].keys() & peaks[1].keys())]
    most = [float(np.median(list(peak.values()))) if peak else float("nan") for peak in peaks]
    row = {"kind": "memory", "name": "memory", "a": most[0], "b": most[1], "unit": "bytes"}
    return as_row(_effect(rounds), row, words=(SMALLER, LARGER))


def _stage_row(path: str, a: Rounds, b: Rounds, unit: str, level: float, change: float) -> dict[str, Any]:
    """A stage: its ratio where both sides have it, and how much of the whole change happened in it."""

    def of(block: dict[str, Any]) -> float:
        return stage_cost(block, path, unit)

    costs = [shares(side).get(path, 0.0) * total_cost(side, unit) for side in (a, b)]
    if all(of(block) > 0 for block in (*every_block(a), *every_block(b))):
        part = _effect(paired(a, b, lambda x, y: (of(y) - of(x)) / cost(x, unit)), level)
        ratio = _effect(paired(a, b, lambda x, y: _log(of(x), of(y))))
    else:  # it happens now and then: only whole rounds have it all
        a, b = ({n: {0: merged(blocks)} for n, blocks in side.items() if blocks} for side in (a, b))
        part = _effect(paired(a, b, lambda x, y: (of(y) - of(x)) / cost(x, unit)), level)
        ratio = _effect(paired(a, b, lambda x, y: _log(of(x), of(y))))
    row = as_row(ratio, {"kind": "stage", "name": path, "a": costs[0], "b": costs[1], "unit": "seconds"})
    row["verdict"] = verdict(replace(part, value=-part.value, low=-part.high, high=-part.low))
    if not (row["a"] > 0 and row["b"] > 0):
        row |= {"ratio": None, "ci95": None, "only": "A" if row["a"] > 0 else "B"}
    contribution = {"value": part.value, "ci95": [part.low, part.high] if part.rounds else None}
    return row | {"contribution": contribution, "share_of_change": part.value / change if change else None}


def as_row(
    effect: stats.Effect, row: dict[str, Any], precision: float = NARROW, words: tuple[str, str] = (FASTER, SLOWER)
) -> dict[str, Any]:
    with np.errstate(over="ignore"):
        found: dict[str, Any] = {
            "verdict": verdict(effect, words, max(NARROW, precision)),
            "ratio": float(np.exp(effect.value)),
            "ci95": [float(np.exp(effect.low)), float(np.exp(effect.high))],
            "smallest_effect": float(np.expm1(effect.smallest)),
        }
    if not np.isfinite(effect.value):
        found |= {"ratio": None, "ci95": None, "smallest_effect": None}
    return row | found


def finite(value: Any) -> Any:
    """The same without numbers that JSON cannot hold: they become None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _projected(shares: dict[str, float], rows: list[dict[str, Any]]) -> float | None:
    """What Amdahl's law says of the whole, from A's shares and the stages' own ratios: it leaves out what only B does."""
    left = 1.0
    for row in rows:
        if row["kind"] == "stage" and row["a"] > 0:
            left -= shares.get(row["name"], 0.0) * (1 - (1 / row["ratio"] if row["ratio"] else 0.0))
    return 1 / left if left > 0 else None


def _work(side: Rounds, unit: str) -> dict[str, float]:
    """How much was learned per step, and how long episodes were."""
    totals: defaultdict[str, float] = defaultdict(float)
    for blocks in side.values():
        for block in blocks.values():
            for what, number in block["counts"].items():
                totals[what] += number
    found = {"per_second": 1 / median_of(side, lambda block: cost(block, unit))}
    if totals[ENV_STEPS]:
        found["updates_per_env_step"] = totals[UPDATES] / totals[ENV_STEPS]
        if totals[EPISODES]:
            found["env_steps_per_episode"] = totals[ENV_STEPS] / totals[EPISODES]
    return found


def _singular(unit: str) -> str:
    return unit.removesuffix("s").replace("_", " ")


def _warnings(run: Run, found: dict[str, Any], turns: Sequence[Turn]) -> list[str]:
    warnings = ending(found)
    control = found["control"]
    if control and control["verdict"] in (FASTER, SLOWER):
        low, high = control["ci95"]
        warnings.append(
            f"The control failed: {found['baseline']} against itself gave {control['ratio']:.3f} ({low:.3f}-{high:.3f}). "
            "The machine is not steady enough: trust no difference of this size."
        )
    for side in found["sides"]:
        costs = [value for t in turns if t.side == side["name"] and np.isfinite(value := cost(t.block, found["unit"]))]
        if len(costs) < 6:
            continue
        late = [value for value in costs if value > OUTLIER * np.median(costs)]
        if len(late) > 0.05 * len(costs):
            warnings.append(f"{side['name']}: {len(late)} of {len(costs)} blocks took over {OUTLIER} times the median.")
        step = stats.change_point(costs)
        if step is not None and abs(change := np.median(costs[step:]) / np.median(costs[:step]) - 1) > NARROW:
            warnings.append(f"{side['name']}: drift, from block {step + 1} on its cost changed by {change:+.0%}.")
    for comparison in found["comparisons"]:
        totals, interval = comparison["ratio_of_totals"], comparison["ci95"]
        if totals and interval and not interval[0] / 1.02 <= totals <= interval[1] * 1.02:
            warnings.append(
                f"{comparison['b']}: over all blocks the ratio is {totals:.3f}, outside the interval: some blocks hold "
                "rare and long work (evaluation, checkpoints, a burst on the machine) that the median does not see."
            )
        rates = [comparison["work"][side].get("updates_per_env_step", 0.0) for side in ("a", "b")]
        if min(rates) >= 0 and max(rates) > 1.05 * min(rates) and max(rates) > 0:
            warnings.append(
                f"{comparison['b']} makes {rates[1]:.3g} updates per env step, {comparison['a']} {rates[0]:.3g}: "
                "they do not learn the same from a step. Throughput only."
            )
    load, cores = run.header["machine"].get("load", [0])[0], run.header["machine"].get("usable_cores", 1)
    if load > cores:
        warnings.append(f"The machine was busy before: load {load:g} on {cores:g} usable cores.")
    return warnings
