"""Sweeps: a knob's values measured in an interleaved run, and what the curve says."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS, EPISODES, ITERATIONS, UPDATES
from hotlap.experiment.blocks import (
    Rounds,
    blocks_of,
    check_blocks,
    config_of,
    cost,
    ending,
    every_block,
    merged,
    stage_cost,
    unit_of,
    work_of,
)
from hotlap.record.blocks import BlockLine, read_blocks
from hotlap.record.growth import SUPERLINEAR
from hotlap.record.profile import GrowthRow
from hotlap.record.run import Run
from hotlap.record.sweep import Knee, Reading, Scaling, Segment, SweepPoint, SweepReport

SCHEMA = "hotlap.sweep/2"
KNEE = 0.9  # of the best throughput


def report_of(run: Run) -> SweepReport:
    """What a sweep found."""
    config, lines = config_of(run), read_blocks(run.path)
    check_blocks(run, lines)
    unit = unit_of(lines)
    points = [_point(lines, variant.name, unit) for variant in config.variants]
    measured = [point for point in points if point.throughput]
    knobs, setup = run.header.interleaved.knobs, run.header.setup
    return SweepReport(
        schema=SCHEMA,
        identity=run.identity,
        unit=unit,
        knobs=knobs,
        points=tuple(points),
        best=max(measured, key=_throughput).name if measured else None,
        scaling=scaling(measured, knobs[0]) if len(knobs) == 1 else None,
        growth=growth_over(measured),
        plan=config.plan,
        variants=config.variants,
        scratch=setup.scratch,
        containment=setup.containment,
        warnings=(*ending(run.identity), *run.header.interleaved.dropped.values(), *_unequal(measured)),
    )


def _throughput(point: SweepPoint) -> float:
    return point.throughput or 0.0


def _unequal(points: Sequence[SweepPoint]) -> list[str]:
    rates = [rate for point in points if (rate := point.work.updates_per_env_step)]
    if rates and max(rates) > 1.05 * min(rates):
        return ["The points make different numbers of updates per env step: throughput only."]
    return []


def _point(lines: Sequence[BlockLine], name: str, unit: str) -> SweepPoint:
    blocks = blocks_of(lines, name)
    rounds = [[np.log(cost(b, unit)) for b in of_round.values() if cost(b, unit) > 0] for of_round in blocks.values()]
    rounds = [values for values in rounds if values]
    values = dict(pair.split("=", 1) for pair in name.split(", ") if "=" in pair)
    if not rounds:
        return SweepPoint(name, values)
    effect = stats.rounds_effect(rounds)
    every = every_block(blocks)
    together = merged(every)
    iterations = together.counts.get(ITERATIONS, 0)
    totals = {what: together.counts.get(what, 0) for what in (ENV_STEPS, UPDATES, EPISODES)}
    return SweepPoint(
        name=name,
        values=values,
        throughput=float(np.exp(-effect.value)),
        ci95=(float(np.exp(-effect.high)), float(np.exp(-effect.low))),
        rounds=effect.rounds,
        memory=float(np.median([block.rss for block in every])),
        stages=_stages(blocks, unit),
        seconds_per_iteration=together.measured / iterations if iterations else None,
        per_iteration={what: amount / iterations for what, amount in totals.items()} if iterations else {},
        work=work_of(blocks, unit),
    )


def _stages(blocks: Rounds, unit: str) -> dict[str, float]:
    every = [block for block in every_block(blocks) if block.measured > 0 and cost(block, unit) > 0]
    paths = {path for block in every for path in block.stages}
    return {path: float(np.median([stage_cost(block, path, unit) for block in every])) for path in paths}


# -- what the curve says --


def scaling(points: Sequence[SweepPoint], knob: str) -> Scaling | None:
    """How throughput follows a numeric knob: segment by segment, and where more stops paying."""
    try:
        placed = sorted(((float(point.values[knob]), point) for point in points), key=lambda pair: pair[0])
    except (ValueError, KeyError):
        return None
    values = [value for value, _ in placed]
    if len(values) < 2 or values[0] <= 0 or not np.isfinite(values).all() or len(set(values)) < len(values):
        return None
    segments = tuple(_segment(low, high, a, b) for (low, a), (high, b) in pairwise(placed))
    best = max(_throughput(point) for point in points)
    value, point = next((value, point) for value, point in placed if _throughput(point) >= KNEE * best)
    return Scaling(knob, segments, Knee(value, _throughput(point), _throughput(point) / best))


def _segment(low: float, high: float, a: SweepPoint, b: SweepPoint) -> Segment:
    """From one point to the next. If that changes how much is learned per step, only collecting is read."""
    slope = float(np.log(_throughput(b) / _throughput(a)) / np.log(high / low))
    before, after = a.work.updates_per_env_step, b.work.updates_per_env_step
    if before is None or after is None or max(before, after) <= 1.05 * min(before, after):
        return Segment(low, high, slope, _reading(slope, a, b))
    steps = [point.per_iteration.get(ENV_STEPS) for point in (a, b)]
    collecting = [sum(s for path, s in point.stages.items() if path.startswith(stages.COLLECT)) for point in (a, b)]
    if min(collecting) > 0 and steps[0] and steps[1] and steps[0] != steps[1]:
        alone = float(np.log(collecting[0] / collecting[1]) / np.log(steps[1] / steps[0]))
        return Segment(low, high, slope, Reading.LEARNS_DIFFERENTLY, (before, after), _reading(alone, a, b), alone)
    return Segment(low, high, slope, Reading.LEARNS_DIFFERENTLY, (before, after))


def _reading(slope: float, a: SweepPoint, b: SweepPoint) -> Reading:
    if abs(slope) < 0.1:
        steps = [point.per_iteration.get(ENV_STEPS) for point in (a, b)]
        return Reading.NO_EFFECT if all(steps) and steps[0] == steps[1] else Reading.WORK_BOUND
    if slope > 0.7:
        return Reading.LATENCY_BOUND
    if slope > 0.3:
        return Reading.PARTLY_LATENCY_BOUND
    return Reading.WORK_BOUND if slope > 0 else Reading.CONTENDED


def growth_over(points: Sequence[SweepPoint]) -> tuple[GrowthRow, ...]:
    """How the time of an iteration grows with the steps, updates and episodes in it."""
    rows = []
    for what in (ENV_STEPS, UPDATES, EPISODES):
        pairs = [
            (amount, seconds)
            for point in points
            if (amount := point.per_iteration.get(what, 0)) > 0 and (seconds := point.seconds_per_iteration or 0) > 0
        ]
        if len(pairs) >= 3 and max(w for w, _ in pairs) > 1.5 * min(w for w, _ in pairs):
            exponent, interval = stats.power_law([w for w, _ in pairs], [c for _, c in pairs])
            rows.append(GrowthRow(what, exponent, interval, exponent > SUPERLINEAR and interval[0] > 1.05))
    return tuple(rows)
