"""A system trained from its start to given numbers of steps, updates or episodes: when each was reached, and how time grows.

What the growth of time says is computed in `record.growth`.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from hotlap.core.clock import StageClock
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.experiment.blocks import ending
from hotlap.record.growth import growth_of, totals
from hotlap.record.header import Interleaved, Status, Verb
from hotlap.record.lines import TRAIN
from hotlap.record.machine import this_machine
from hotlap.record.run import Run
from hotlap.record.sweep import GrowthCurve, GrowthReport, Reached
from hotlap.target.target import System, Variant

SCHEMA = "hotlap.growth/2"
CURVE = 200  # points of the plot
NANO = 1e-9


def train_until(
    variant: Variant, what: str, counts: Sequence[float], out: Path | None, on_progress: Callable[[float], None]
) -> Run:
    """Train a system from its start to the last of the given numbers of steps, updates or episodes."""
    from hotlap import systems
    from hotlap.launch.system import work_of
    from hotlap.systems.configs import config_from
    from hotlap.train.loop import recording, stop_requests, write_samples

    target = variant.target
    assert isinstance(target, System)
    system = systems.load(target.name, target.algorithm)
    config = config_from(system, target.config)
    clock = StageClock.for_device(config.device)
    done = 0.0
    with closing(system.make_env(config)) as env:
        work = work_of(system, config, env, clock, env_only=False)
        section = Interleaved(until=what, counts=tuple(counts))
        run = Run.create(Verb.SWEEP, target.name, dict(target.config), this_machine(), out, interleaved=section)
        with recording(run), stop_requests() as stop:
            while done < counts[-1] and not stop.is_set():
                with clock.iteration():
                    work.iterate()
                write_samples(run, clock, TRAIN)
                done += run.lines[-1].sample.counts.get(what, 0)
                on_progress(done)
            run.finish(Status.INTERRUPTED if stop.is_set() else Status.DONE)
    return run


def report_of(run: Run) -> GrowthReport:
    samples, until = run.phase(TRAIN), run.header.interleaved.until
    if until not in (ENV_STEPS, UPDATES, EPISODES):
        raise RecordError(f"{run.path / 'run.json'} is damaged: it counts {until!r}")
    return GrowthReport(
        schema=SCHEMA,
        identity=run.identity,
        until=until,
        reached=reached(samples, until, run.header.interleaved.counts),
        growth=growth_of(samples),
        curve=_curve(samples, until),
        config=run.header.config,
        warnings=tuple(ending(run.identity)),
    )


def _curve(samples: Sequence[Sample], what: str) -> GrowthCurve:
    """Time, steps and updates against the count, each relative to its end."""
    done = totals(samples)
    if not samples or not done[what][-1]:
        return GrowthCurve()
    every = np.unique(np.linspace(0, len(samples) - 1, CURVE).astype(int))
    lines = {"time": np.cumsum([s.wall * NANO for s in samples]), **{k: v for k, v in done.items() if k != what}}
    series = {name.replace("_", " "): tuple((line[every] / line[-1]).tolist()) for name, line in lines.items() if line[-1]}
    return GrowthCurve(tuple(done[what][every].tolist()), series)


def reached(samples: Sequence[Sample], what: str, counts: Sequence[float]) -> tuple[Reached, ...]:
    """When each count was reached, and what a straight line from the first of them would have said."""
    wall = np.cumsum([sample.wall * NANO for sample in samples])
    done = totals(samples)
    rows: list[Reached] = []
    for count in counts:
        place = int(np.searchsorted(done[what], count))
        if place >= len(wall) or not done[what][place]:
            break
        steps, updates, episodes = (float(done[name][place]) for name in (ENV_STEPS, UPDATES, EPISODES))
        row = Reached(count, float(wall[place]), steps, updates, episodes, expected_seconds=0.0)
        rows.append(_expected(rows[0] if rows else row, row, what))
    return tuple(rows)


def _expected(first: Reached, row: Reached, what: str) -> Reached:
    """Counts are reached at ends of iterations, so what was done is compared, not what was asked for."""

    def by(name: str) -> float | None:
        before, now = getattr(first, name), getattr(row, name)
        return float(first.seconds * now / before) if before else None

    return replace(row, expected_seconds=by(what) or 0.0, expected_by_steps=by(ENV_STEPS), expected_by_updates=by(UPDATES))
