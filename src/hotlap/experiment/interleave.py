"""Interleaved runs: fresh processes that work a block each, in random order, so that noise hits all variants alike.

A round starts one process per variant, each in a scratch of its own, lets all of them warm up, and then has them work
blocks: all processes of a variant that is not at work are stopped. Rounds follow each other until the caller has enough.
Every block is on disk as soon as it is over.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from hotlap.core.errors import TargetFailed
from hotlap.launch.launcher import Child, NoAnswer, Start
from hotlap.launch.scratch import ScratchKind
from hotlap.launch.spec import BlockSettings
from hotlap.probe.frameworks.plugins import plugin_variable
from hotlap.record.blocks import BlockLine, Schedule, append_block
from hotlap.record.run import Run
from hotlap.target.target import System, Variant

_PATIENCE = 600.0  # seconds that a process may take to warm up, or for one block
_MOST_ROUNDS = 10_000

OnBlock = Callable[[int, int, str], None]  # (round, block, variant or activity)


class OutOfTime(TargetFailed):
    """The time for all rounds is over in the middle of one."""


class VariantFailed(TargetFailed):
    """One of the variants failed."""

    def __init__(self, variant: Variant, message: str) -> None:
        super().__init__(f"{variant.name} {message}")
        self.variant = variant


def interleave(
    run: Run,
    variants: Sequence[Variant],
    schedule: Schedule,
    on_block: OnBlock = lambda *_: None,
    drop: bool = False,
    scratch: ScratchKind = ScratchKind.AUTO,
    rerun: bool = True,
    deadline: float = float("inf"),
) -> Iterator[list[BlockLine]]:
    """Rounds, one after the other, each as its blocks, until the caller stops asking; `OutOfTime` at the deadline.

    A variant that fails ends the run; with `drop` only its own part, as long as two are left, and the record says why.
    """
    order = random.Random(schedule.seed)
    left = list(variants)
    for number in range(1, _MOST_ROUNDS):
        while True:
            try:
                lines = _round(run, left, schedule, number, order, on_block, scratch, rerun, deadline)
                break
            except VariantFailed as failure:
                if not drop or len(left) < 3:
                    raise
                left.remove(failure.variant)
                dropped = {**run.header.interleaved.dropped, failure.variant.name: str(failure)}
                run.update(interleaved=replace(run.header.interleaved, dropped=dropped))
        yield lines


def _round(
    run: Run,
    variants: Sequence[Variant],
    schedule: Schedule,
    number: int,
    order: random.Random,
    on_block: OnBlock,
    scratch: ScratchKind,
    rerun: bool,
    deadline: float,
) -> list[BlockLine]:
    lines: list[BlockLine] = []
    with ExitStack() as stack:
        on_block(number, 0, "starting")
        members = [
            stack.enter_context(_Member(run, variant, schedule, number, place, scratch, rerun, deadline))
            for place, variant in enumerate(variants, 1)
        ]
        for member in members:
            member.warm_up()
        began = time.monotonic()
        for block in range(1, schedule.blocks + 1):
            if block > 2 and time.monotonic() - began > schedule.round:
                break
            for member in order.sample(members, len(members)):
                on_block(number, block, member.variant.name)
                lines.append(member.work(number, block))
                append_block(run.path, lines[-1])
    return lines


class _Member:
    """A variant's process in one round."""

    def __init__(
        self,
        run: Run,
        variant: Variant,
        schedule: Schedule,
        number: int,
        place: int,
        scratch: ScratchKind,
        rerun: bool,
        deadline: float,
    ) -> None:
        self.variant = variant
        self._deadline = deadline
        target = variant.target.seeded(number - 1) if isinstance(variant.target, System) else variant.target
        started = replace(variant, target=target, environment={**plugin_variable(), **variant.environment})
        settings = BlockSettings(schedule.block, schedule.warmup)
        log = run.path / f"output-{place}.log"
        self._child = Child(Start(started, settings, run.path, scratch, log=log, rerun=rerun))

    def __enter__(self) -> "_Member":
        return self

    def __exit__(self, *_: object) -> None:
        if time.monotonic() > self._deadline:
            self._child.kill()
        else:
            self._child.close()

    @property
    def _patience(self) -> float:
        return max(0.1, min(_PATIENCE, self._deadline - time.monotonic()))

    def warm_up(self) -> None:
        try:
            self._child.wait_until_ready(self._patience)
            self._child.pause()
        except TargetFailed as failure:
            raise self._failed(failure, "warmed up") from None

    def _failed(self, failure: TargetFailed, aim: str) -> TargetFailed:
        if isinstance(failure, NoAnswer) and time.monotonic() > self._deadline:
            counted = "what processes that it starts do is not counted here, only in a profile"
            return OutOfTime(f"the time was over before {self.variant.name} had {aim}: give it a larger --budget ({counted})")
        return VariantFailed(self.variant, str(failure))

    def work(self, number: int, block: int) -> BlockLine:
        try:
            return BlockLine(number, block, self.variant.name, self._child.block(self._patience))
        except TargetFailed as failure:
            raise self._failed(failure, "worked a block") from None
