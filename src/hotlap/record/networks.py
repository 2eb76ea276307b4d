"""Networks side by side: what each costs, and whether time follows size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hotlap.record import codec
from hotlap.record.header import ModuleTime
from hotlap.record.run import Run

SCHEMA = "hotlap.nets/2"
LARGER = 1.2  # ratio of operations from which two networks differ in size
FOLLOWS = 0.5  # of the difference in operations (logarithms) that time shows, from which it follows size


@dataclass(frozen=True)
class NetTimes:
    """One network on one batch. Times are seconds; `operations` counts multiplications and additions of a forward pass."""

    name: str
    parameters: int
    operations: int
    saved_bytes: int  # kept from the forward pass for the backward pass, parameters not counted
    act: float  # forward without gradients
    act_ci95: tuple[float, float]
    forward: float  # with gradients
    backward: float
    both: float
    both_ci95: tuple[float, float]
    modules: tuple[ModuleTime, ...] = ()


@dataclass(frozen=True)
class SizeReading:
    """A network against the smallest: how much more it computes, and how much longer that takes."""

    net: str
    smallest: str
    operations: float  # ratios
    time: float
    follows: bool  # whether time follows size


@dataclass(frozen=True)
class NetComparison:
    nets: tuple[NetTimes, ...]
    batch: int
    readings: tuple[SizeReading, ...] = ()
    schema: str = SCHEMA


def readings_of(nets: Sequence[NetTimes]) -> tuple[SizeReading, ...]:
    """Each network against the smallest: does time follow the operations?"""
    smallest = min(nets, key=lambda net: net.operations)
    readings = []
    for net in nets:
        size = net.operations / max(smallest.operations, 1)
        if net is smallest or size < LARGER:
            continue
        slower = net.both / smallest.both if smallest.both > 0 else 1.0
        follows = math.log(max(slower, 1e-9)) / math.log(size) >= FOLLOWS
        readings.append(SizeReading(net.name, smallest.name, size, slower, follows))
    return tuple(readings)


def nets_of(run: Run) -> NetComparison | None:
    """The networks by themselves, if a comparison was about them. Records of version 0.1.0 hold no readings."""
    document = run.header.interleaved.nets
    if document is None:
        return None
    comparison = codec.from_json(NetComparison, document, run.path / "run.json")
    return replace(comparison, readings=readings_of(comparison.nets)) if comparison.nets else None
