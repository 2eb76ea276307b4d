"""Blocks of an interleaved run as numbers: what they cost, by stage, and which belong together."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS, EPISODES, ITERATIONS, UPDATES, WINDOWS
from hotlap.core.errors import RecordError
from hotlap.record import codec
from hotlap.record.blocks import Block, BlockLine, InterleavedConfig
from hotlap.record.comparison import Work
from hotlap.record.header import Status
from hotlap.record.run import Identity, Run

Rounds = dict[int, dict[int, Block]]  # round -> number -> block
_UNITS = (ENV_STEPS, UPDATES, ITERATIONS, WINDOWS)
RARE, STEADY = 0.01, 0.8  # of a block's time from which it holds such work; of all blocks from which that is not rare


def config_of(run: Run) -> InterleavedConfig:
    """The plan and the variants of a comparison or a sweep."""
    return codec.from_json(InterleavedConfig, run.header.config, run.path / "run.json")


def check_blocks(run: Run, lines: Sequence[BlockLine]) -> None:
    """A block in which nothing was counted could not be compared with any other."""
    for number, line in enumerate(lines, 1):
        if not any(line.block.counts.get(unit, 0) > 0 for unit in _UNITS):
            raise RecordError(f"{run.path}: block {number} is damaged: it counts no steps, updates, iterations or windows")


def blocks_of(lines: Iterable[BlockLine], variant: str) -> Rounds:
    """A variant's blocks after its warm-up, which each fresh process may have once more."""
    rounds: Rounds = defaultdict(dict)
    for line in lines:
        if line.variant == variant:
            rounds[line.round][line.number] = line.block
    for number, blocks in rounds.items():
        order = sorted(blocks)
        late = stats.warmup_end([_pace(blocks[i]) for i in order]) if len(order) > 4 else 0
        rounds[number] = {i: blocks[i] for i in order[late:]}
    return rounds


def _pace(block: Block) -> float:
    """Seconds per whatever the block counts first."""
    return next(cost(block, unit) for unit in _UNITS if block.counts.get(unit, 0) > 0)


def unit_of(lines: Sequence[BlockLine]) -> str:
    """What costs are counted by: the first of steps, updates and iterations that all variants count, or windows."""
    variants = {line.variant for line in lines}
    for unit in (ENV_STEPS, UPDATES, ITERATIONS):
        if variants and variants == {line.variant for line in lines if line.block.counts.get(unit)}:
            return unit
    return WINDOWS


def cost(block: Block, unit: str) -> float:
    """Seconds per unit of work, without those for which other programs had the core."""
    amount = block.counts.get(unit, 0)
    return float(block.worked / amount) if amount > 0 else float("nan")


def stage_cost(block: Block, path: str, unit: str) -> float:
    """Seconds per unit of work in one stage, exclusive. Blocks are measured in part: the shares hold for all."""
    return cost(block, unit) * block.stages.get(path, 0.0) / block.measured if block.measured > 0 else float("nan")


def paired(a: Rounds, b: Rounds, of: Callable[[Block, Block], float]) -> list[list[float]]:
    """A number for each pair of blocks of the same round and number, by rounds."""
    rounds = []
    for number in sorted(a.keys() & b.keys()):
        values = [of(a[number][i], b[number][i]) for i in sorted(a[number].keys() & b[number].keys())]
        if finite := [value for value in values if np.isfinite(value)]:
            rounds.append(finite)
    return rounds


def every_block(variant: Rounds) -> list[Block]:
    return [block for blocks in variant.values() for block in blocks.values()]


def shares(variant: Rounds) -> dict[str, float]:
    """Each stage's share of all the time that was measured."""
    blocks = every_block(variant)
    measured = sum(block.measured for block in blocks)
    if measured <= 0:
        return {}
    return {path: sum(block.stages.get(path, 0.0) for block in blocks) / measured for path in paths_of(variant)}


def total_cost(variant: Rounds, unit: str) -> float:
    """All the time over all the work: what rare and long work does to a variant, which medians do not see."""
    amount = sum(block.counts.get(unit, 0) for block in every_block(variant))
    return sum(block.worked for block in every_block(variant)) / amount if amount > 0 else float("nan")


def evenly(variant: Rounds, unit: str) -> Rounds:
    """The same with evaluations, checkpoints and logs spread over all blocks: few hold them, and a median sees none."""
    work = sum(block.counts.get(unit, 0) for block in every_block(variant))
    beside = sum(map(_beside, every_block(variant)))
    if not work or not beside:
        return variant

    def spread(block: Block) -> Block:
        wall = max(block.worked - _beside(block), 0.0) + beside * block.counts.get(unit, 0) / work
        return replace(block, wall=wall, paused=block.paused * wall / block.wall, queued=0.0) if wall > 0 else block

    return {number: {i: spread(block) for i, block in blocks.items()} for number, blocks in variant.items()}


def rare_error(variant: Rounds) -> float:
    """How far off a variant's cost may be, as a logarithm, because few of its blocks hold what is rare and long."""
    blocks = every_block(variant)
    beside, wall = sum(map(_beside, blocks)), sum(block.worked for block in blocks)
    holding = sum(_beside(block) > RARE * block.wall for block in blocks)
    return 1.96 * beside / wall / holding**0.5 if 0 < holding < STEADY * len(blocks) else 0.0


def _beside(block: Block) -> float:
    """Seconds of a block that went to work beside training."""
    seconds = sum(spent for path, spent in block.stages.items() if path.partition("/")[0] in stages.BESIDE)
    return block.worked * min(1.0, seconds / block.measured) if block.measured > 0 else 0.0


def paths_of(variant: Rounds) -> set[str]:
    return {path for block in every_block(variant) for path in block.stages}


def median_of(variant: Rounds, of: Callable[[Block], float]) -> float:
    values = [value for block in every_block(variant) if np.isfinite(value := of(block))]
    return float(np.median(values)) if values else float("nan")


def merged(blocks: Iterable[Block]) -> Block:
    """Several blocks as one."""
    blocks = list(blocks)
    counts: defaultdict[str, float] = defaultdict(float)
    seconds: defaultdict[str, float] = defaultdict(float)
    for block in blocks:
        for name, amount in block.counts.items():
            counts[name] += amount
        for path, spent in block.stages.items():
            seconds[path] += spent
    wall, paused, queued = (sum(getattr(block, name) for block in blocks) for name in ("wall", "paused", "queued"))
    return Block(wall, paused, counts, seconds, queued=queued)


def work_of(variant: Rounds, unit: str) -> Work:
    """How much was done and learned per step, and how long episodes were."""
    if not every_block(variant):
        return Work()
    counts = merged(every_block(variant)).counts
    steps, updates, episodes = (counts.get(what, 0.0) for what in (ENV_STEPS, UPDATES, EPISODES))
    return Work(
        per_second=finite(1 / median_of(variant, lambda block: cost(block, unit))),
        updates_per_env_step=updates / steps if steps else None,
        env_steps_per_episode=steps / episodes if steps and episodes else None,
    )


def finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def ending(identity: Identity) -> list[str]:
    """What a reader must know of how an interleaved run ended."""
    messages = []
    if identity.status in (Status.INTERRUPTED, Status.KILLED):
        messages.append(f"The {identity.verb} was {identity.status}: this is what it had measured by then.")
    return [*messages, identity.error] if identity.error else messages
