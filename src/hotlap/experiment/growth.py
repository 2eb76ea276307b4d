"""How a run's time grows with the work that it does: steps, updates and episodes apart.

"5,000 episodes take 14 times as long as 1,024 made one expect" is no slowdown if episodes get longer: counted by steps, time is
linear. What is more than linear is flagged, with the reason that the counts give.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core import machine, stats
from hotlap.core.clock import StageClock
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.experiment.blocks import ending
from hotlap.experiment.interleave import Side
from hotlap.record.run import Run, strict_reading

SUPERLINEAR = 1.15  # exponent from which growth is called super-linear, with the whole interval above 1.05
CURVE = 200  # points of the plot


def train_until(side: Side, what: str, counts: Sequence[float], out: Path | None, on_progress: Callable[[float], None]) -> Run:
    """Train a system from its start until it has done so many steps, updates or episodes: the last of the counts."""
    from hotlap import systems
    from hotlap.launch.system import work_of
    from hotlap.target import flags
    from hotlap.train.loop import recording, stop_requests, write_samples

    system = systems.load(side.target, side.algorithm)
    config = flags.config_from(system, side.config)
    clock = StageClock.for_device(config.device)
    done = 0.0
    with closing(system.make_env(config)) as env:
        work = work_of(system, config, env, clock, env_only=False)
        run = Run.create("sweep", side.target, side.config, machine.facts(), out, until=what, counts=list(counts))
        with recording(run), stop_requests() as stop:
            while done < counts[-1] and not stop.is_set():
                with clock.iteration():
                    work.iterate()
                write_samples(run, clock, "train")
                done += run.lines[-1].sample.counts.get(what, 0)
                on_progress(done)
            run.finish("interrupted" if stop.is_set() else "done")
    return run


def document(run: Run) -> dict[str, Any]:
    with strict_reading(run.path):
        samples = run.phase("train")
        what = run.header["until"]
        found: dict[str, Any] = {
            "schema": "hotlap.growth/1",
            **run.facts(),
            "until": what,
            "reached": reached(samples, what, run.header["counts"]),
            "growth": growth(samples),
            "curve": _curve(samples, what),
            "plan": {},
            "config": run.header["config"],
        }
        found["warnings"] = ending(found)
    return found


def _totals(samples: Sequence[Any]) -> dict[str, Any]:
    return {what: np.cumsum([s.counts.get(what, 0.0) for s in samples]) for what in (ENV_STEPS, UPDATES, EPISODES)}


def _curve(samples: Sequence[Any], what: str) -> dict[str, Any]:
    """Time, steps and updates against the count, each relative to its end."""
    totals = _totals(samples)
    if not len(samples) or not totals[what][-1]:
        return {"x": [], "series": {}}
    every = np.unique(np.linspace(0, len(samples) - 1, CURVE).astype(int))
    lines = {"time": np.cumsum([s.wall for s in samples]), **{k: v for k, v in totals.items() if k != what}}
    series = {name.replace("_", " "): (line[every] / line[-1]).tolist() for name, line in lines.items() if line[-1]}
    return {"x": totals[what][every].tolist(), "series": series}


def growth(samples: Sequence[Any], checkpoints: int = 24) -> dict[str, Any] | None:
    """Of one run, from its start: how its time grows with the steps, updates and episodes done so far, and why.

    The time until a count is reached, at counts that grow geometrically. An exponent of 1 is linear.
    """
    wall = np.cumsum([sample.wall * 1e-9 for sample in samples])
    totals = _totals(samples)
    rows: list[dict[str, Any]] = []
    for what, count in totals.items():
        done = count > 0
        if done.sum() < 5 or count[-1] < 3 * count[done][0]:
            continue
        marks = np.geomspace(count[done][0], count[-1], checkpoints)
        places = np.unique(np.searchsorted(count, marks * (1 - 1e-12)))
        if len(places) < 3:
            continue
        exponent, interval = stats.power_law(count[places], wall[places])
        above = exponent > SUPERLINEAR and interval[0] > 1.05
        rows.append({"work": what, "exponent": exponent, "ci95": list(interval), "superlinear": above})
    if not rows:
        return None
    return {"rows": rows, "why": _why(samples, {row["work"]: row for row in rows})}


def _why(samples: Sequence[Any], rows: dict[str, dict[str, Any]]) -> list[str]:
    """Reasons for growth that is more than linear: what changed from the first tenth of the run to the last."""
    tenth = max(1, len(samples) // 10)
    early, late = samples[:tenth], samples[-tenth:]

    def ratio_of(top: str, bottom: str, part: Sequence[Any]) -> float:
        below = sum(s.counts.get(bottom, 0) for s in part)
        return float(sum(s.counts.get(top, 0) for s in part) / below) if below else 0.0

    def seconds_per_step(part: Sequence[Any]) -> float:
        steps = sum(s.counts.get(ENV_STEPS, 0) for s in part)
        return float(sum(s.wall for s in part) * 1e-9 / steps) if steps else 0.0

    said = []
    by_episodes, by_steps = rows.get(EPISODES), rows.get(ENV_STEPS)
    lengths = [ratio_of(ENV_STEPS, EPISODES, part) for part in (early, late)]
    if by_episodes and by_episodes["superlinear"] and lengths[0] and lengths[1] > 1.2 * lengths[0]:
        said.append(
            f"Episodes got longer: {lengths[0]:.0f} steps at the start, {lengths[1]:.0f} at the end. Time per episode follows; "
            "this is no slowdown."
        )
    updates = [ratio_of(UPDATES, ENV_STEPS, part) for part in (early, late)]
    if updates[1] > 1.5 * updates[0]:
        said.append(
            f"Learning began on the way: {updates[0]:.3g} updates per env step at the start, {updates[1]:.3g} at the end."
        )
    if by_steps and by_steps["superlinear"] and not (updates[1] > 1.5 * updates[0]):
        costs = [seconds_per_step(part) for part in (early, late)]
        stage, factor = _grown(early, late)
        how_much = f"{factor:.1f}x" if factor else "from nothing"
        said.append(
            f"A step itself costs {costs[1] / costs[0]:.1f} times what it did; the stage that grew most is {stage} "
            f"({how_much})."
        )
    return said


def _grown(early: Sequence[Any], late: Sequence[Any]) -> tuple[str, float]:
    """The stage whose time per step grew most, in seconds."""

    def per_step(part: Sequence[Any]) -> dict[str, float]:
        steps = sum(s.counts.get(ENV_STEPS, 0) for s in part) or 1
        paths = {path for s in part for path in s.own}
        return {path: sum(s.own.get(path, 0) for s in part) / steps for path in paths}

    before, after = per_step(early), per_step(late)
    stage = max(after, key=lambda path: after[path] - before.get(path, 0.0), default="none")
    return stage, after[stage] / before[stage] if before.get(stage) else 0.0


def reached(samples: Sequence[Any], what: str, counts: Sequence[float]) -> list[dict[str, Any]]:
    """When each count was reached, and what a straight line from the first of them would have said."""
    wall = np.cumsum([sample.wall * 1e-9 for sample in samples])
    totals = _totals(samples)
    found: list[dict[str, Any]] = []
    for count in counts:
        place = int(np.searchsorted(totals[what], count))
        if place >= len(wall):
            break
        row: dict[str, Any] = {
            "count": count,
            "seconds": float(wall[place]),
            **{name: float(total[place]) for name, total in totals.items()},
        }
        first = found[0] if found else row
        row["expected_seconds"] = first["seconds"] * row[what] / first[what]  # counts are reached at ends of iterations
        row["expected_by_steps"] = first["seconds"] * row[ENV_STEPS] / first[ENV_STEPS]
        row["expected_by_updates"] = first["seconds"] * row[UPDATES] / first[UPDATES] if first[UPDATES] else None
        found.append(row)
    return found
