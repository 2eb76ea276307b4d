"""What the blocks of two variants say: the whole, memory, and every stage with what it contributes to the change.

A ratio is the cost of A over the cost of B, so above 1 B needs less. Costs are per environment step where steps are counted.
How the interval is made: `stats.rounds_effect`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import ITERATIONS, UPDATES
from hotlap.experiment.blocks import (
    Rounds,
    blocks_of,
    cost,
    evenly,
    every_block,
    finite,
    median_of,
    merged,
    paired,
    rare_error,
    shares,
    stage_cost,
    total_cost,
    work_of,
)
from hotlap.record.blocks import Block, BlockLine
from hotlap.record.comparison import Comparison, Contribution, Outcome, Row, RowKind, Verdict, WorkPair

NARROW = 0.05  # an interval wider than this that holds 1 says nothing
TINY = 0.001  # of the whole: stages below this are left out
NOTHING = stats.Effect(float("nan"), -np.inf, np.inf, np.inf, 0, 0)
TIME, MEMORY = (Verdict.FASTER, Verdict.SLOWER), (Verdict.SMALLER, Verdict.LARGER)


def headline(lines: Sequence[BlockLine], a: str, b: str, unit: str, level: float = 0.95) -> stats.Effect:
    """The logarithm of how many times faster B is than A."""
    variants = blocks_of(lines, a), blocks_of(lines, b)
    first, second = (evenly(variant, unit) for variant in variants)
    effect = _effect(paired(first, second, lambda x, y: _log(cost(x, unit), cost(y, unit))), level)
    error = math.hypot(*map(rare_error, variants))
    low, high = (math.hypot(end - effect.value, error) for end in (effect.low, effect.high))
    return replace(effect, low=effect.value - low, high=effect.value + high) if error else effect


def compare_blocks(lines: Sequence[BlockLine], first: str, second: str, unit: str, precision: float) -> Comparison:
    """One variant against the first."""
    a, b = blocks_of(lines, first), blocks_of(lines, second)
    overall = headline(lines, first, second, unit)
    even = evenly(a, unit), evenly(b, unit)
    change = _effect(paired(*even, lambda x, y: (cost(y, unit) - cost(x, unit)) / cost(x, unit)))
    rows = (*_whole_rows(a, b, unit), _memory_row(a, b), *_stage_rows(a, b, unit, change.value))
    return Comparison(
        **vars(outcome_of(overall, precision)),
        a=first,
        b=second,
        rounds=overall.rounds,
        pairs=overall.pairs,
        rows=rows,
        change=finite(change.value),
        projected=_projected(shares(a), rows),
        ratio_of_totals=finite(total_cost(a, unit) / total_cost(b, unit)),
        work=WorkPair(work_of(a, unit), work_of(b, unit)),
        ratios=tuple(map(tuple, paired(*even, lambda x, y: cost(x, unit) / cost(y, unit)))),
    )


def verdict_of(effect: stats.Effect, words: tuple[Verdict, Verdict] = TIME, narrow: float = NARROW) -> Verdict:
    """B needs less (the first of the words), more (the second), the same, or too few samples to tell."""
    if effect.low > 0:
        return words[0]
    if effect.high < 0:
        return words[1]
    return Verdict.SAME if effect.width <= narrow else Verdict.TOO_FEW


def outcome_of(effect: stats.Effect, precision: float = NARROW, words: tuple[Verdict, Verdict] = TIME) -> Outcome:
    """A ratio from the effect on its logarithm."""
    verdict = verdict_of(effect, words, max(NARROW, precision))
    with np.errstate(over="ignore"):
        ratio, low, high = np.exp([effect.value, effect.low, effect.high])
        smallest = np.expm1(effect.smallest)
    if not np.isfinite([ratio, low, high, smallest]).all():
        return Outcome(Verdict.TOO_FEW, None, None, None)
    return Outcome(verdict, float(ratio), (float(low), float(high)), float(smallest))


def time_per(unit: str) -> str:
    return f"time per {unit.removesuffix('s').replace('_', ' ')}"


def stage_order(path: str) -> tuple[bool, tuple[int, ...]]:
    """Sort key: the order of the tree, what belongs to no stage last."""
    return path == stages.UNATTRIBUTED, stages.order(path)


def _log(a: float, b: float) -> float:
    return float(np.log(a / b)) if a > 0 and b > 0 else float("nan")


def _effect(rounds: list[list[float]], level: float = 0.95) -> stats.Effect:
    return stats.rounds_effect(rounds, level) if rounds else NOTHING


def _whole_rows(a: Rounds, b: Rounds, unit: str) -> list[Row]:
    every = [*every_block(a), *every_block(b)]
    others = [other for other in (UPDATES, ITERATIONS) if other != unit and all(cost(block, other) > 0 for block in every)]
    return [_time_row(evenly(a, unit), evenly(b, unit), other) for other in (unit, *others)]


def _time_row(a: Rounds, b: Rounds, unit: str) -> Row:
    of: Callable[[Block], float] = partial(cost, unit=unit)
    outcome = outcome_of(_effect(paired(a, b, lambda x, y: _log(of(x), of(y)))))
    before, after = (finite(median_of(variant, of)) for variant in (a, b))
    return Row(**vars(outcome), kind=RowKind.WHOLE, name=time_per(unit), a=before, b=after, unit="seconds")


def _memory_row(a: Rounds, b: Rounds) -> Row:
    """Memory grows within a process, so each round has one pair: the most of either."""
    peaks = [{n: max(block.rss for block in blocks.values()) for n, blocks in variant.items() if blocks} for variant in (a, b)]
    rounds = [[_log(peaks[0][n], peaks[1][n])] for n in sorted(peaks[0].keys() & peaks[1].keys())]
    known = [values for values in rounds if np.isfinite(values).all()]
    before, after = (float(np.median(list(peak.values()))) if peak else None for peak in peaks)
    outcome = outcome_of(_effect(known), words=MEMORY)
    return Row(**vars(outcome), kind=RowKind.MEMORY, name="memory", a=before, b=after, unit="bytes")


def _stage_rows(a: Rounds, b: Rounds, unit: str, change: float) -> list[Row]:
    paths = {path for variant in (a, b) for path, share in shares(variant).items() if share > TINY}
    level = 1 - 0.05 / max(len(paths), 1)  # many stages are compared: all their verdicts together hold at 95%
    return [_stage_row(path, a, b, unit, level, change) for path in sorted(paths, key=stage_order)]


def _stage_row(path: str, a: Rounds, b: Rounds, unit: str, level: float, change: float) -> Row:
    """A stage: its ratio where both variants have it, and how much of the whole change happened in it."""

    def of(block: Block) -> float:
        return stage_cost(block, path, unit)

    costs = [shares(variant).get(path, 0.0) * total_cost(variant, unit) for variant in (a, b)]
    if not all(of(block) > 0 for block in (*every_block(a), *every_block(b))):
        # It happens rarely: only complete rounds contain all of it.
        a, b = ({n: {0: merged(blocks.values())} for n, blocks in variant.items() if blocks} for variant in (a, b))
    part = _effect(paired(a, b, lambda x, y: (of(y) - of(x)) / cost(x, unit)), level)
    outcome = outcome_of(_effect(paired(a, b, lambda x, y: _log(of(x), of(y)))))
    outcome = replace(outcome, verdict=verdict_of(replace(part, value=-part.value, low=-part.high, high=-part.low)))
    only = None
    if not (costs[0] > 0 and costs[1] > 0):
        outcome, only = replace(outcome, ratio=None, ci95=None), "A" if costs[0] > 0 else "B"
    interval = (part.low, part.high) if part.rounds and np.isfinite([part.low, part.high]).all() else None
    return Row(
        **vars(outcome),
        kind=RowKind.STAGE,
        name=path,
        a=finite(costs[0]),
        b=finite(costs[1]),
        unit="seconds",
        only=only,
        contribution=Contribution(finite(part.value), interval),
        share_of_change=finite(part.value / change) if change else None,
    )


def _projected(shares: dict[str, float], rows: Sequence[Row]) -> float | None:
    """What Amdahl's law says of the whole, from A's shares and the stages' own ratios: it leaves out what only B does."""
    left = 1.0
    for row in rows:
        if row.kind is RowKind.STAGE and row.a and row.a > 0:
            left -= shares.get(row.name, 0.0) * (1 - (1 / row.ratio if row.ratio else 0.0))
    return 1 / left if left > 0 else None
