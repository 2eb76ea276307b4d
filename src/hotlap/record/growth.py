"""How a run's time grows with the work that it does: steps, updates and episodes apart.

"5,000 episodes take 14 times as long as 1,024 made one expect" is no slowdown if episodes get longer: counted by steps, time is
linear. What is more than linear is flagged, with the reason that the counts give.
"""

from collections.abc import Sequence

import numpy as np

from hotlap.core import stats
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.sample import Sample
from hotlap.record.profile import Growth, GrowthCause, GrowthReason, GrowthRow

NANO = 1e-9
SUPERLINEAR = 1.15  # exponent from which growth is called super-linear, with the whole interval above 1.05
CHECKPOINTS = 24


def totals(samples: Sequence[Sample]) -> dict[str, stats.Floats]:
    """What was done until the end of each sample."""
    return {what: np.cumsum([max(s.counts.get(what, 0.0), 0.0) for s in samples]) for what in (ENV_STEPS, UPDATES, EPISODES)}


def growth_of(samples: Sequence[Sample]) -> Growth | None:
    """Of one run, from its start: how its time grows with the steps, updates and episodes done so far, and why.

    The time until a count is reached, at counts that grow geometrically. An exponent of 1 is linear.
    """
    wall = np.cumsum([sample.wall * NANO for sample in samples])
    rows = [row for what, done in totals(samples).items() if (row := _row(what, done, wall))]
    return Growth(tuple(rows), tuple(_reasons(samples, {row.work: row for row in rows}))) if rows else None


def _row(work: str, done: stats.Floats, wall: stats.Floats) -> GrowthRow | None:
    begun = done > 0
    if begun.sum() < 5 or done[-1] < 3 * done[begun][0]:
        return None
    marks = np.geomspace(done[begun][0], done[-1], CHECKPOINTS)
    places = np.unique(np.minimum(np.searchsorted(done, marks * (1 - 1e-12)), len(done) - 1))
    if len(places) < 3 or np.ptp(np.log(done[places])) == 0:
        return None
    exponent, interval = stats.power_law(done[places], wall[places])
    return GrowthRow(work, exponent, interval, exponent > SUPERLINEAR and interval[0] > 1.05)


def _reasons(samples: Sequence[Sample], rows: dict[str, GrowthRow]) -> list[GrowthReason]:
    """What changed from the first tenth of the run to the last."""
    tenth = max(1, len(samples) // 10)
    early, late = samples[:tenth], samples[-tenth:]
    reasons = []
    lengths = [_ratio(ENV_STEPS, EPISODES, part) for part in (early, late)]
    if _grows(rows.get(EPISODES)) and lengths[0] and lengths[1] > 1.2 * lengths[0]:
        reasons.append(GrowthReason(GrowthCause.LONGER_EPISODES, lengths[0], lengths[1]))
    updates = [_ratio(UPDATES, ENV_STEPS, part) for part in (early, late)]
    if updates[1] > 1.5 * updates[0]:
        reasons.append(GrowthReason(GrowthCause.LEARNING_BEGAN, updates[0], updates[1]))
    elif _grows(rows.get(ENV_STEPS)):
        costs = [_seconds_per_step(part) for part in (early, late)]
        stage, factor = _grown(early, late)
        reasons.append(GrowthReason(GrowthCause.SLOWER_STEPS, costs[0], costs[1], stage, factor))
    return reasons


def _grows(row: GrowthRow | None) -> bool:
    return row is not None and row.superlinear


def _ratio(top: str, bottom: str, part: Sequence[Sample]) -> float:
    below = sum(sample.counts.get(bottom, 0) for sample in part)
    return float(sum(sample.counts.get(top, 0) for sample in part) / below) if below else 0.0


def _seconds_per_step(part: Sequence[Sample]) -> float:
    steps = sum(sample.counts.get(ENV_STEPS, 0) for sample in part)
    return float(sum(sample.wall for sample in part) * NANO / steps) if steps else 0.0


def _grown(early: Sequence[Sample], late: Sequence[Sample]) -> tuple[str | None, float | None]:
    """The stage whose time per step grew most, in seconds, and by which factor; no factor if it took no time before."""

    def per_step(part: Sequence[Sample]) -> dict[str, float]:
        steps = sum(sample.counts.get(ENV_STEPS, 0) for sample in part) or 1
        paths = {path for sample in part for path in sample.exclusive}
        return {path: sum(sample.exclusive.get(path, 0) for sample in part) / steps for path in paths}

    before, after = per_step(early), per_step(late)
    stage = max(after, key=lambda path: after[path] - before.get(path, 0.0), default=None)
    return stage, after[stage] / before[stage] if stage is not None and before.get(stage) else None
