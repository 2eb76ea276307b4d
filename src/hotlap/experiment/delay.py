"""Causal sweeps of a script: known delays in a stage, and how much of them the whole notices.

A stage's share of the time says what making it faster would give only if nothing overlaps with it. So the stage is made slower
by known amounts: if the whole slows down by as much (slope 1), the stage is in the way, and making it faster helps as much as
Amdahl says; if not (slope 0.3), it helps that much less.
"""

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS
from hotlap.core.errors import UsageError
from hotlap.experiment.blocks import blocks_of, cost, ending, paired, stage_cost, unit_of
from hotlap.experiment.interleave import Side, read_turns
from hotlap.probe.delays import VARIABLE
from hotlap.record.run import Run, strict_reading

PATHS = (
    *(f"{stages.COLLECT}/{name}" for name in (stages.ENV_STEP, stages.ACT, stages.STORE)),
    *(f"{stages.UPDATE}/{name}" for name in (stages.LOSS, stages.BACKWARD, stages.OPTIMIZER)),
    *(stages.SAMPLE, stages.ADVANTAGE, stages.LOG),
)
DELAYS = (0.0, 0.0002, 0.0005, 0.001)  # seconds per call of the stage


def sides(side: Side, name: str) -> tuple[list[Side], str]:
    """The script with growing delays in a stage, which may be named by its last part."""
    found = [path for path in PATHS if name in (path, path.rpartition("/")[2])]
    if not found:
        raise UsageError(f"--delay {name}: choose one of {', '.join(path.rpartition('/')[2] for path in PATHS)}")
    path = found[0]

    def delayed(seconds: float) -> Side:
        return replace(side, name=f"delay={seconds * 1e6:g}us", environment={VARIABLE: json.dumps({path: seconds})})

    return [delayed(seconds) for seconds in DELAYS], path


def document(run: Run) -> dict[str, Any]:
    """The slope of the whole's cost against the delay that was put in, and what that makes of a faster stage."""
    with strict_reading(run.path):
        turns = read_turns(run.path)
        path = run.header["delay"]
        names = [side["name"] for side in run.header["config"]["sides"]]
        unit = unit_of(turns)
        base = blocks_of(turns, names[0])
        points: list[dict[str, Any]] = []
        products: dict[int, float] = defaultdict(float)  # round -> what was put in times what was noticed, summed
        squares: dict[int, float] = defaultdict(float)
        for side in run.header["config"]["sides"]:
            name, delay = side["name"], json.loads(side["environment"][VARIABLE])[path]
            blocks = blocks_of(turns, name)
            every = [block for found in blocks.values() for block in found.values()]
            if not every:
                continue
            put_in = delay * float(np.median([_delays_per(block, unit, path) for block in every]))
            rounds = paired(base, blocks, lambda x, y: cost(y, unit) - cost(x, unit))
            for number, found in zip(sorted(base.keys() & blocks.keys()), rounds, strict=False):
                products[number] += put_in * float(np.median(found))
                squares[number] += put_in**2
            points.append(
                {
                    "name": name,
                    "injected": put_in,
                    "cost": float(np.median([cost(block, unit) for block in every])),
                    "noticed": float(np.median([value for found in rounds for value in found])) if rounds else None,
                }
            )
        slopes = [[products[number] / squares[number]] for number in squares if squares[number]]  # least squares through 0
        effect = stats.rounds_effect(slopes) if slopes else None
        share = _share(base, path, unit)
        document: dict[str, Any] = {
            "schema": "hotlap.causal/1",
            **run.facts(),
            "unit": unit,
            "delay": path,
            "knobs": run.header["knobs"],
            "delayed": points,
            "slope": effect.value if effect else None,
            "slope_ci95": [effect.low, effect.high] if effect and effect.rounds > 2 else None,
            "in_workers": path.endswith(stages.ENV_STEP) and not any(turn.block["counts"].get("delays") for turn in turns),
            "share": share,
            "projections": project(share, effect) if share is not None else [],
            "plan": run.header["config"]["plan"],
        }
        document["warnings"] = ending(document)
        if turns and not slopes:
            document["warnings"].append(
                f"Nothing was delayed: hotlap sees no function of this script that is {path} as a whole."
            )
    return document


def _delays_per(block: dict[str, Any], unit: str, path: str) -> float:
    """How often the stage was delayed per unit of work. Environments in worker processes are delayed once per step."""
    amount = block["counts"].get(unit, 0)
    number = block["counts"].get("delays", 0)
    if not number and path.endswith(stages.ENV_STEP):
        number = block["counts"].get(ENV_STEPS, 0)
    return float(number / amount) if amount else 0.0


def _share(base: Any, path: str, unit: str) -> float | None:
    """The stage's share of the time, waiting for workers counted with their environments."""
    every = [block for found in base.values() for block in found.values()]
    if not every:
        return None
    paths = [path, f"{stages.COLLECT}/{stages.WAIT}"] if path.endswith(stages.ENV_STEP) else [path]
    return float(np.median([sum(stage_cost(block, p, unit) for p in paths) / cost(block, unit) for block in every]))


def project(share: float, slope: stats.Effect | None) -> list[dict[str, Any]]:
    """What a stage that is k times faster would give: by its share alone, and with what the delays say of overlap."""
    found = []
    for times in (2.0, 5.0, float("inf")):
        row: dict[str, Any] = {
            "times": None if times == float("inf") else times,
            "by_share": _finite(stats.amdahl(share, times)),
        }
        if slope:
            limits = [slope.value, slope.low, slope.high] if slope.rounds > 2 else [slope.value]
            gains = [_finite(stats.amdahl(share * min(max(s, 0.0), 1.0), times)) for s in limits]
            row["by_delay"] = gains[0]
            row["ci95"] = sorted(gains[1:], key=lambda gain: gain or float("inf")) if len(gains) > 1 else None
        found.append(row)
    return found


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
