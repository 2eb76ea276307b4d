"""Blocks of a race as numbers: what they cost, by stage, and which belong together."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hotlap.core import stats
from hotlap.core.counts import ENV_STEPS, ITERATIONS, UPDATES, WINDOWS
from hotlap.experiment.interleave import Turn

Rounds = dict[int, dict[int, dict[str, Any]]]  # round -> turn -> block


def blocks_of(turns: Iterable[Turn], side: str) -> Rounds:
    """A side's blocks after its warm-up, which each fresh process may have once more."""
    found: Rounds = defaultdict(dict)
    for turn in turns:
        if turn.side == side:
            found[turn.round][turn.turn] = turn.block
    for number, blocks in found.items():
        order = sorted(blocks)
        late = stats.warmup_end([_pace(blocks[i]) for i in order]) if len(order) > 4 else 0
        found[number] = {i: blocks[i] for i in order[late:]}
    return found


def _pace(block: dict[str, Any]) -> float:
    """Seconds per whatever the block counts first."""
    return next(cost(block, unit) for unit in (ENV_STEPS, UPDATES, ITERATIONS, WINDOWS) if block["counts"].get(unit))


def unit_of(turns: Sequence[Turn]) -> str:
    """What costs are counted by: the first of steps, updates and iterations that all sides count; windows if there is none."""
    sides = {turn.side for turn in turns}
    for unit in (ENV_STEPS, UPDATES, ITERATIONS):
        if sides and sides == {turn.side for turn in turns if turn.block["counts"].get(unit)}:
            return unit
    return WINDOWS


def cost(block: dict[str, Any], unit: str) -> float:
    """Seconds per unit of work."""
    amount = block["counts"].get(unit, 0)
    return float(block["wall"] / amount) if amount else float("nan")


def stage_cost(block: dict[str, Any], path: str, unit: str) -> float:
    """Seconds per unit of work in one stage, without those inside it. Blocks are measured in part: the shares hold for all."""
    measured = block["wall"] - block["bare"]
    return cost(block, unit) * block["stages"].get(path, 0.0) / measured if measured > 0 else float("nan")


def paired(a: Rounds, b: Rounds, of: Callable[[dict[str, Any], dict[str, Any]], float]) -> list[list[float]]:
    """A number for each pair of blocks of the same round and turn, by rounds."""
    rounds = []
    for number in sorted(a.keys() & b.keys()):
        values = [of(a[number][turn], b[number][turn]) for turn in sorted(a[number].keys() & b[number].keys())]
        if finite := [value for value in values if np.isfinite(value)]:
            rounds.append(finite)
    return rounds


def every_block(side: Rounds) -> list[dict[str, Any]]:
    return [block for blocks in side.values() for block in blocks.values()]


def shares(side: Rounds) -> dict[str, float]:
    """Each stage's share of all the time that was measured."""
    measured = sum(block["wall"] - block["bare"] for block in every_block(side))
    return (
        {path: sum(b["stages"].get(path, 0.0) for b in every_block(side)) / measured for path in paths_of(side)}
        if measured
        else {}
    )


def total_cost(side: Rounds, unit: str) -> float:
    """All the time over all the work: what rare and long work does to a side, which medians do not see."""
    amount = sum(block["counts"].get(unit, 0) for block in every_block(side))
    return sum(block["wall"] for block in every_block(side)) / amount if amount else float("nan")


def paths_of(side: Rounds) -> set[str]:
    return {path for block in every_block(side) for path in block["stages"]}


def median_of(side: Rounds, of: Callable[[dict[str, Any]], float]) -> float:
    values = [value for block in every_block(side) if np.isfinite(value := of(block))]
    return float(np.median(values)) if values else float("nan")


def merged(blocks: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """A round's blocks as one."""
    found: dict[str, Any] = {"wall": 0.0, "bare": 0.0, "counts": defaultdict(float), "stages": defaultdict(float)}
    for block in blocks.values():
        for name in ("wall", "bare"):
            found[name] += block[name]
        for name in ("counts", "stages"):
            for key, value in block[name].items():
                found[name][key] += value
    return found


def ending(document: dict[str, Any]) -> list[str]:
    """What a reader must know of how a race ended."""
    early = document["status"] in ("interrupted", "killed")
    said = [f"The {document['verb']} was {document['status']}: this is what was measured until then."] if early else []
    return [*said, document["error"]] if document["error"] else said
