"""Samples as tables and series: the time of every stage, and what happened window by window."""

from collections.abc import Sequence

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.sample import Sample
from hotlap.record.lines import Recorded
from hotlap.record.profile import StageTime, Windows

NANO = 1e-9
MOST_POINTS = 2_000  # of a series; more are joined


def stage_table(samples: Sequence[Sample], traced: Sequence[Sample]) -> dict[str, StageTime]:
    """Exclusive and inclusive time of every stage, in the order of the tree, `unattributed` last."""
    if not samples:
        return {}
    paths = [*sorted({path for sample in samples for path in sample.exclusive}, key=stages.order), stages.UNATTRIBUTED]
    walls = np.array([sample.wall for sample in samples], float)
    exclusive = [_exclusive(samples, path) for path in paths]
    inclusive = [_inclusive(samples, path) for path in paths]
    intervals = stats.ratio_intervals([*exclusive, *inclusive], walls)
    on_gpu = _gpu_times(traced)
    table = {}
    for i, path in enumerate(paths):
        gpu_share, gpu_interval = on_gpu.get(path, (None, None))
        table[path] = StageTime(
            seconds=float(exclusive[i].sum() * NANO),
            share=float(exclusive[i].sum() / walls.sum()),
            ci95=intervals[i],
            total_seconds=float(inclusive[i].sum() * NANO),
            total_share=float(inclusive[i].sum() / walls.sum()),
            total_ci95=intervals[len(paths) + i],
            calls=sum(sample.calls.get(path, 0) for sample in samples),
            gpu_share=gpu_share,
            gpu_ci95=gpu_interval,
        )
    return table


def _exclusive(samples: Sequence[Sample], path: str) -> stats.Floats:
    if path == stages.UNATTRIBUTED:
        return np.array([unattributed(sample) for sample in samples], float)
    return np.array([sample.exclusive.get(path, 0) for sample in samples], float)


def _inclusive(samples: Sequence[Sample], path: str) -> stats.Floats:
    if path == stages.UNATTRIBUTED:
        return _exclusive(samples, path)
    return np.array([sample.inclusive.get(path, 0) for sample in samples], float)


def _gpu_times(traced: Sequence[Sample]) -> dict[str, tuple[float, tuple[float, float]]]:
    """Of every stage that was seen on the GPU's timeline: its share of the traced iterations."""
    paths = sorted({path for sample in traced for path in sample.gpu})
    if not paths:
        return {}
    walls = np.array([sample.wall for sample in traced], float)
    times = [np.array([sample.gpu.get(path, 0) for sample in traced], float) for path in paths]
    intervals = stats.ratio_intervals(times, walls)
    return {path: (float(t.sum() / walls.sum()), interval) for path, t, interval in zip(paths, times, intervals, strict=True)}


def unattributed(sample: Sample) -> int:
    """Nanoseconds that no stage claimed."""
    return sample.wall - sum(total for path, total in sample.inclusive.items() if stages.parent(path) is None)


def windows_of(lines: Sequence[Recorded], warmup: int) -> Windows:
    """One point per recorded iteration, or per group of neighbours; the first `warmup` iterations are warm-up."""
    if not lines:
        return Windows()
    size = -(-len(lines) // MOST_POINTS)
    starts = list(range(0, len(lines), size))
    samples = [line.sample for line in lines]

    def sums(values: Sequence[float]) -> stats.Floats:
        return np.asarray(np.add.reduceat(np.array(values, float), starts))

    def counted(name: str) -> stats.Floats:
        return sums([sample.counts.get(name, 0) for sample in samples])

    walls = sums([sample.wall for sample in samples])
    rates = {what: _floats(counted(what) / (walls * NANO)) for what in (ENV_STEPS, UPDATES, EPISODES)}
    paths = sorted({path for sample in samples for path in sample.exclusive}, key=stages.order)
    shares = {path: _floats(sums(list(_exclusive(samples, path))) / walls) for path in [*paths, stages.UNATTRIBUTED]}
    names = sorted({name for sample in samples for name in sample.counts})
    return Windows(
        time=tuple(samples[i].start * NANO for i in starts),
        phase=tuple("warmup" if i < warmup else lines[i].phase for i in starts),
        env_steps_per_s=rates[ENV_STEPS],
        updates_per_s=rates[UPDATES],
        episodes_per_s=rates[EPISODES],
        shares=shares,
        counts={name: _floats(counted(name)) for name in names},
        rss=tuple(int(peak) for peak in np.maximum.reduceat(np.array([line.rss for line in lines]), starts)),
    )


def _floats(values: stats.Floats) -> tuple[float, ...]:
    return tuple(values.tolist())
