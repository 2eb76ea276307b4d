"""Comparisons: variants measured in an interleaved run (`interleave.py`), and the report of what its blocks say (`rows.py`)."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core import stats
from hotlap.core.counts import ENV_STEPS, UPDATES, WINDOWS
from hotlap.core.errors import RecordError, TargetFailed, UsageError
from hotlap.experiment.blocks import check_blocks, config_of, cost, ending, unit_of
from hotlap.experiment.interleave import OutOfTime, interleave
from hotlap.experiment.rows import NARROW, compare_blocks, headline, outcome_of
from hotlap.launch.scratch import ScratchKind, containment, pick
from hotlap.record import codec
from hotlap.record.blocks import CONTROL, Block, BlockLine, Plan, read_blocks
from hotlap.record.comparison import Comparison, ComparisonReport
from hotlap.record.header import Setup, Status, Verb
from hotlap.record.networks import nets_of
from hotlap.record.run import Run
from hotlap.target.interpreter import machine_of
from hotlap.target.target import Script, Variant

SCHEMA = "hotlap.compare/2"
MIN_ROUNDS = 4  # before the interval is asked whether it is narrow enough
OUTLIER = 1.5  # times the median of its variant
NEIGHBOURS = 0.02  # share of the time that other programs took, from which it is said
LATE, GRACE = 1.1, 8.0  # a round is cut off after this many times the budget, and seconds

OnProgress = Callable[[str, float, float], None]  # (what goes on, seconds spent, of how many)


# -- measuring --


def run_interleaved(
    verb: Verb,
    variants: Sequence[Variant],
    plan: Plan,
    out: Path | None = None,
    on_progress: OnProgress = lambda *_: None,
    scratch: ScratchKind | str = ScratchKind.AUTO,
    rerun: bool = True,
    in_time: bool = False,
    **sections: Any,
) -> Run:
    """Measure the variants; the record. What goes wrong, or Ctrl-C, ends it and keeps what was measured.

    `in_time` cuts a round off that would take much longer than the budget.
    """
    if len(variants) < 2:
        raise UsageError(f"{verb} needs at least two things to tell apart")
    measured = list(variants)
    if plan.control:
        measured.append(replace(variants[0], name=CONTROL + variants[0].name))
    targets = list(dict.fromkeys(variant.target.name for variant in variants))
    config = {"plan": codec.to_json(plan), "variants": [variant.to_record() for variant in variants]}
    setup, machine = setup_of(variants, scratch), machine_of(variants)
    run = Run.create(verb, " and ".join(targets), config, machine, out, setup=setup, **sections)
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        _measure(run, variants, measured, plan, on_progress, ScratchKind(scratch), rerun, in_time)
        run.finish(Status.DONE)
    except KeyboardInterrupt:
        run.finish(Status.INTERRUPTED)
    except (TargetFailed, RecordError) as error:
        with suppress(RecordError):  # a full disk, perhaps
            run.finish(Status.FAILED, error=str(error))
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
    return run


def setup_of(variants: Sequence[Variant], scratch: ScratchKind | str) -> Setup:
    """Which scratch and containment the variants run in: systems write nothing, and need no scratch."""
    is_script = any(isinstance(variant.target, Script) for variant in variants)
    kind = pick(ScratchKind(scratch)) if is_script else ScratchKind.IN_PLACE
    contained = containment(wanted=not (is_script and kind is ScratchKind.IN_PLACE))
    return Setup(scratch=kind.value if is_script else None, containment=contained.value)


def _measure(
    run: Run,
    variants: Sequence[Variant],
    measured: list[Variant],
    plan: Plan,
    on_progress: OnProgress,
    scratch: ScratchKind,
    rerun: bool,
    in_time: bool,
) -> None:
    """Rounds, until enough is known or the budget is spent."""
    began = time.monotonic()

    def on_block(number: int, block: int, what: str) -> None:
        shown = f"round {number}, {what}" if block == 0 else f"round {number}, block {block} of {plan.schedule.blocks}: {what}"
        on_progress(shown, time.monotonic() - began, plan.budget)

    lines: list[BlockLine] = []
    drop = run.header.verb is Verb.SWEEP
    deadline = began + LATE * plan.budget + GRACE if in_time else float("inf")
    rounds = interleave(run, measured, plan.schedule, on_block, drop=drop, scratch=scratch, rerun=rerun, deadline=deadline)
    for number, done in enumerate(_until_out_of_time(rounds, run), 1):
        lines += done
        spent = time.monotonic() - began
        unit = unit_of(lines)
        if unit == WINDOWS:
            raise TargetFailed(f"there is nothing to compare by: {_counted(lines)}")
        effects = [headline(lines, variants[0].name, variant.name, unit) for variant in variants[1:]]
        if _is_enough(effects, number, plan) or spent + spent / number > plan.budget:
            break


def _until_out_of_time(rounds: Iterator[list[BlockLine]], run: Run) -> Iterator[list[BlockLine]]:
    """Rounds; one that is cut off ends them, if every variant has worked a block."""
    try:
        yield from rounds
    except OutOfTime:
        blocks = read_blocks(run.path)
        if len({line.variant for line in blocks}) < 2:
            raise


def _is_enough(effects: Sequence[stats.Effect], rounds: int, plan: Plan) -> bool:
    narrow = all(effect.width <= plan.precision for effect in effects)
    return (rounds >= MIN_ROUNDS and narrow) or (rounds > 1 and all(_is_clear(effect, plan) for effect in effects))


def _is_clear(effect: stats.Effect, plan: Plan) -> bool:
    if plan.clear is None:
        return False
    return effect.low > plan.clear or effect.high < -plan.clear or effect.width <= plan.precision


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _counted(lines: Sequence[BlockLine]) -> str:
    """What each variant counted, in words."""
    parts = []
    for variant in dict.fromkeys(line.variant for line in lines):
        blocks = [line.block for line in lines if line.variant == variant]
        counts = [what.replace("_", " ") for what in (ENV_STEPS, UPDATES) if any(block.counts.get(what) for block in blocks)]
        parts.append(f"{variant} made {' and '.join(counts) or 'no env steps and no updates that hotlap saw'}")
    return "; ".join(parts)


# -- reporting --


def report_of(run: Run) -> ComparisonReport:
    """What a comparison found: each variant against the first."""
    config, lines = config_of(run), read_blocks(run.path)
    check_blocks(run, lines)
    first, *others = (variant.name for variant in config.variants)
    unit = unit_of(lines)
    comparisons = tuple(compare_blocks(lines, first, other, unit, config.plan.precision) for other in others)
    control = None
    if any(line.variant == CONTROL + first for line in lines):
        control = outcome_of(headline(lines, first, CONTROL + first, unit))
    top = comparisons[0]
    report = ComparisonReport(
        verdict=top.verdict,
        ratio=top.ratio,
        ci95=top.ci95,
        smallest_effect=top.smallest_effect,
        schema=SCHEMA,
        identity=run.identity,
        unit=unit,
        baseline=first,
        rows=top.rows,
        comparisons=comparisons,
        control=control,
        plan=config.plan,
        variants=config.variants,
        nets=nets_of(run),
        scratch=run.header.setup.scratch,
        containment=run.header.setup.containment,
    )
    return replace(report, warnings=tuple(_warnings(report, lines)))


def _warnings(report: ComparisonReport, lines: Sequence[BlockLine]) -> list[str]:
    messages = ending(report.identity)
    control = report.control
    if control and control.verdict.is_difference and control.ratio and control.ci95:
        low, high = control.ci95
        messages.append(
            f"The control failed: {report.baseline} against itself gave {control.ratio:.3f} ({low:.3f}-{high:.3f}). "
            "The machine is not steady enough: trust no difference of this size."
        )
    for variant in report.variants:
        messages += _unsteady(variant.name, [line.block for line in lines if line.variant == variant.name], report.unit)
    for comparison in report.comparisons:
        messages += _unequal(comparison)
    if lines and (share := sum(line.block.queued for line in lines) / sum(line.block.wall for line in lines)) > NEIGHBOURS:
        messages.append(f"Other programs had the core for {share:.0%} of the time. That time is left out.")
    machine = report.identity.machine
    if machine.is_busy:
        messages.append(f"The machine was busy before: load {machine.load[0]:g} on {machine.usable_cores:g} usable cores.")
    return messages


def _unsteady(name: str, blocks: Sequence[Block], unit: str) -> list[str]:
    """Outliers and drift among the blocks of a variant."""
    costs = [value for block in blocks if np.isfinite(value := cost(block, unit))]
    if len(costs) < 6:
        return []
    messages = []
    late = [value for value in costs if value > OUTLIER * np.median(costs)]
    if len(late) > 0.05 * len(costs):
        messages.append(f"{name}: {len(late)} of {len(costs)} blocks took over {OUTLIER} times the median.")
    step = stats.change_point(costs)
    if step is not None and abs(change := np.median(costs[step:]) / np.median(costs[:step]) - 1) > NARROW:
        messages.append(f"{name}: drift, from block {step + 1} on its cost changed by {change:+.0%}.")
    return messages


def _unequal(comparison: Comparison) -> list[str]:
    """What the ratio does not say: rare and long work, and that two variants learn differently from a step."""
    messages = []
    totals, interval = comparison.ratio_of_totals, comparison.ci95
    if totals and interval and not interval[0] / 1.02 <= totals <= interval[1] * 1.02:
        messages.append(
            f"{comparison.b}: over all blocks the ratio is {totals:.3f}, outside the interval: some blocks hold "
            "rare and long work (evaluation, checkpoints, a burst on the machine) that the median does not see."
        )
    a, b = (work.updates_per_env_step or 0.0 for work in (comparison.work.a, comparison.work.b))
    if min(a, b) >= 0 and max(a, b) > 1.05 * min(a, b):
        messages.append(
            f"{comparison.b} makes {b:.3g} updates per env step, {comparison.a} {a:.3g}: "
            "they do not learn the same from a step. Throughput only."
        )
    return messages
