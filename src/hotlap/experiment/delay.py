"""Causal sweeps of a script: known delays in a stage, and how much of them shows up in total time.

A stage's share of the time says what making it faster would give only if nothing overlaps with it. So the stage is made slower
by known amounts: if training slows down by as much (slope 1), the stage is on the critical path, and making it faster helps as
much as Amdahl says; if not (slope 0.3), it helps that much less.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import DELAYS as INJECTED
from hotlap.core.counts import ENV_STEPS
from hotlap.core.errors import RecordError, UsageError
from hotlap.experiment.blocks import (
    Rounds,
    blocks_of,
    check_blocks,
    config_of,
    cost,
    ending,
    every_block,
    finite,
    paired,
    stage_cost,
    unit_of,
)
from hotlap.probe.delays import VARIABLE
from hotlap.record import codec
from hotlap.record.blocks import Block, BlockLine, VariantRecord, read_blocks
from hotlap.record.run import Run
from hotlap.record.sweep import DelayPoint, DelayProjection, DelayReport
from hotlap.target.target import Variant

SCHEMA = "hotlap.causal/2"
PATHS = (
    *(f"{stages.COLLECT}/{name}" for name in (stages.ENV_STEP, stages.ACT, stages.STORE)),
    *(f"{stages.UPDATE}/{name}" for name in (stages.LOSS, stages.BACKWARD, stages.OPTIMIZER)),
    *(stages.SAMPLE, stages.ADVANTAGE, stages.LOG),
)
DELAYS = (0.0, 0.0002, 0.0005, 0.001)  # seconds per call of the stage


def variants(variant: Variant, name: str) -> tuple[list[Variant], str]:
    """The script with growing delays in a stage, which may be named by its last part."""
    matching = [path for path in PATHS if name in (path, path.rpartition("/")[2])]
    if not matching:
        raise UsageError(f"--delay {name}: choose one of {', '.join(path.rpartition('/')[2] for path in PATHS)}")
    path = matching[0]

    def delayed(seconds: float) -> Variant:
        return replace(variant, name=f"delay={seconds * 1e6:g}us", environment={VARIABLE: json.dumps({path: seconds})})

    return [delayed(seconds) for seconds in DELAYS], path


def report_of(run: Run) -> DelayReport:
    """The slope of the whole's cost against the delay that was put in, and what that makes of a faster stage."""
    config, lines = config_of(run), read_blocks(run.path)
    check_blocks(run, lines)
    path, unit = run.header.interleaved.delay or "", unit_of(lines)
    base = blocks_of(lines, config.variants[0].name)
    delays = {variant.name: _delay_of(run, variant, path) for variant in config.variants}
    points = [point for name, delay in delays.items() if (point := _point(lines, base, name, delay, unit, path))]
    slopes = _slopes(lines, base, {point.name: point.injected for point in points}, unit)
    slope = stats.rounds_effect(slopes) if slopes else None
    share = _share(base, path, unit)
    unseen = f"Nothing was delayed: hotlap sees no function of this script that is {path} as a whole."
    return DelayReport(
        schema=SCHEMA,
        identity=run.identity,
        unit=unit,
        delay=path,
        knobs=run.header.interleaved.knobs,
        delayed=tuple(points),
        slope=slope.value if slope else None,
        slope_ci95=(slope.low, slope.high) if slope and slope.rounds > 2 else None,
        in_workers=path.endswith(stages.ENV_STEP) and not any(line.block.counts.get(INJECTED) for line in lines),
        share=share,
        projections=project(share, slope) if share is not None else (),
        plan=config.plan,
        scratch=run.header.setup.scratch,
        containment=run.header.setup.containment,
        warnings=(*ending(run.identity), *([unseen] if lines and not slopes else [])),
    )


def _delay_of(run: Run, variant: VariantRecord, path: str) -> float:
    """Seconds per call that a variant was slowed down by."""
    where = run.path / "run.json"
    delays = codec.from_json(dict[str, float], codec.loads(variant.environment.get(VARIABLE, ""), str(where)), where)
    if path not in delays:
        raise RecordError(f"{where} is damaged: {variant.name!r} does not delay {path!r}")
    return delays[path]


def _point(lines: Sequence[BlockLine], base: Rounds, name: str, delay: float, unit: str, path: str) -> DelayPoint | None:
    blocks = blocks_of(lines, name)
    costs = [value for block in every_block(blocks) if np.isfinite(value := cost(block, unit))]
    if not costs:
        return None
    injected = delay * float(np.median([_delays_per(block, unit, path) for block in every_block(blocks)]))
    noticed = [value for values in paired(base, blocks, lambda x, y: cost(y, unit) - cost(x, unit)) for value in values]
    return DelayPoint(name, injected, float(np.median(costs)), float(np.median(noticed)) if noticed else None)


def _slopes(lines: Sequence[BlockLine], base: Rounds, injected: dict[str, float], unit: str) -> list[list[float]]:
    """Of each round: what was noticed against what was put in, by least squares through 0."""
    products: dict[int, float] = defaultdict(float)
    squares: dict[int, float] = defaultdict(float)
    for name, seconds in injected.items():
        blocks = blocks_of(lines, name)
        for number in sorted(base.keys() & blocks.keys()):
            for values in paired({number: base[number]}, {number: blocks[number]}, lambda x, y: cost(y, unit) - cost(x, unit)):
                products[number] += seconds * float(np.median(values))
                squares[number] += seconds**2
    return [[products[number] / squares[number]] for number in squares if squares[number] > 0]


def _delays_per(block: Block, unit: str, path: str) -> float:
    """How often the stage was delayed per unit of work. Environments in worker processes are delayed once per step."""
    amount, number = block.counts.get(unit, 0), block.counts.get(INJECTED, 0)
    if not number and path.endswith(stages.ENV_STEP):
        number = block.counts.get(ENV_STEPS, 0)
    return float(number / amount) if amount > 0 else 0.0


def _share(base: Rounds, path: str, unit: str) -> float | None:
    """The stage's share of the time, waiting for workers counted with their environments."""
    paths = [path, f"{stages.COLLECT}/{stages.WAIT}"] if path.endswith(stages.ENV_STEP) else [path]
    shares = [sum(stage_cost(block, p, unit) for p in paths) / cost(block, unit) for block in every_block(base)]
    known = [share for share in shares if np.isfinite(share)]
    return float(np.median(known)) if known else None


def project(share: float, slope: stats.Effect | None) -> tuple[DelayProjection, ...]:
    """What a stage that is k times faster would give: by its share alone, and with what the delays say of overlap."""
    rows = []
    for times in (2.0, 5.0, float("inf")):
        by_share, shown = finite(stats.amdahl(share, times)), None if times == float("inf") else times
        if not slope:
            rows.append(DelayProjection(shown, by_share))
            continue
        gains = [finite(stats.amdahl(share * min(max(s, 0.0), 1.0), times)) for s in (slope.value, slope.low, slope.high)]
        low, high = sorted(gains[1:], key=lambda gain: gain or float("inf"))
        rows.append(DelayProjection(shown, by_share, gains[0], (low, high) if slope.rounds > 2 else None))
    return tuple(rows)
