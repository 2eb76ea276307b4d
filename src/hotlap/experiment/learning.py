"""Does the faster variant learn as well? Curves of both with the same seeds, side by side.

What cannot change learning is held to more: its losses must be the same numbers. What can is held to not being worse: at an
equal number of steps, the return of the faster variant may lie below the original's by no more than a margin, a share of what
the original learned; the interval is over seeds, as rliable has it (a bootstrap of seeds), and few seeds give wide ones.
"""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from hotlap.core import stats, units
from hotlap.core.errors import TargetFailed
from hotlap.interventions import VARIABLE
from hotlap.launch.launcher import Child, Start
from hotlap.launch.messages import Progress
from hotlap.launch.scratch import ScratchKind
from hotlap.launch.spec import CurveSettings
from hotlap.probe.frameworks.plugins import plugin_variable
from hotlap.record.curve import LATE, Curve
from hotlap.record.investigation import LearningVerdict, LossCheck, ReturnCheck, TimeRatio
from hotlap.target.target import System, Variant

MARGIN = 0.1  # of what the original learned, and of the spread of its returns at least
LOSSES = 40  # that are compared; of a system, the means of ITERATIONS iterations
ITERATIONS = 3
STARTING = 120.0  # seconds beyond its time that a run may take to start and to end
SHORTEST = 2.0  # seconds of a run for its curve
CLOSE = 1e-4  # relative difference up to which losses are called the same: threads add numbers up in another order


def run_curve(
    variant: Variant,
    folder: Path,
    name: str,
    seed: int,
    steps: float = 1e18,
    seconds: float = 1e9,
    losses: int = 0,
    episodes: bool = True,
    scratch: ScratchKind | str = ScratchKind.AUTO,
    rerun: bool = True,
    patience: float = STARTING,
) -> Curve:
    """Run a script or a system for its curve, in a process of its own and in a scratch; what it says is kept line by line."""
    folder.mkdir(parents=True, exist_ok=True)
    out, log = folder / f"{name}.jsonl", folder / f"{name}.log"
    target = variant.target.seeded(seed) if isinstance(variant.target, System) else variant.target
    changes = json.loads(variant.environment.get(VARIABLE) or os.environ.get(VARIABLE, "[]"))
    environment = {**plugin_variable(), **variant.environment, VARIABLE: json.dumps([["seed", {"offset": seed}], *changes])}
    started = replace(variant, target=target, environment=environment)
    settings = CurveSettings(steps, seconds, losses, episodes)
    log.unlink(missing_ok=True)
    start = Start(started, settings, folder, ScratchKind(scratch), log=log, rerun=rerun)
    with out.open("w") as file, Child(start) as child:

        def keep(message: Progress) -> None:
            named = {"return": message.return_, "length": message.length, "loss": message.loss}
            values = {key: value for key, value in named.items() if value is not None}
            file.write(json.dumps({"steps": message.steps, "seconds": message.seconds, **values}) + "\n")
            file.flush()

        try:
            child.progress(seconds + patience, keep)  # a run whose steps hotlap does not see is kept as far as it came
        except TargetFailed as failure:
            raise TargetFailed(f"{variant.name} failed while its learning was checked: it {failure}") from None
    return read_curve(out)


def read_curve(path: Path) -> Curve:
    """The episodes and losses that a run left, a line of JSON each."""
    episodes: list[tuple[float, float, float]] = []
    losses: list[float] = []
    for line in path.read_text().splitlines():
        with suppress(ValueError, KeyError):  # a line that was cut off
            row = json.loads(line)
            if "loss" in row:
                losses.append(row["loss"])
            else:
                episodes.append((row["steps"], row["seconds"], row["return"]))
    steps, seconds, returns = zip(*episodes, strict=True) if episodes else ((), (), ())
    return Curve(steps, seconds, returns, tuple(losses))


def same_losses(
    base: Variant,
    changed: Variant,
    folder: Path,
    scratch: ScratchKind | str = ScratchKind.AUTO,
    seconds: float = 60.0,
    rerun: bool = True,
    patience: float = STARTING,
    until: float = math.inf,
) -> LossCheck:
    """Whether both compute the same losses, from the same seed. The original against itself says whether that can be asked.

    `until` is when all must be over, on the monotonic clock.
    """
    wanted = ITERATIONS if isinstance(base.target, System) else LOSSES
    runs: list[tuple[float, ...]] = []
    for variant, name in ((base, "losses-original"), (base, "losses-again"), (changed, "losses-changed")):
        began = time.monotonic()
        curve = run_curve(
            variant,
            folder,
            name,
            0,
            seconds=seconds,
            losses=wanted,
            episodes=False,
            scratch=scratch,
            rerun=rerun,
            patience=_in_time(patience, seconds, until),
        )
        runs.append(curve.losses)
        took = time.monotonic() - began
        if len(runs) < 3 and time.monotonic() + (3 - len(runs)) * took > until:
            return LossCheck(LearningVerdict.UNCLEAR, 0)
    original, again, other = runs
    compared = min(len(original), len(again), len(other))
    if not compared:
        return LossCheck(LearningVerdict.UNCLEAR, 0)
    by_itself = _difference(original[:compared], again[:compared])
    if by_itself > CLOSE:
        return LossCheck(LearningVerdict.NOT_REPEATABLE, compared, by_itself)
    difference = _difference(original[:compared], other[:compared])
    verdict = LearningVerdict.SAME_LOSSES if difference <= CLOSE else LearningVerdict.OTHER_LOSSES
    return LossCheck(verdict, compared, difference)


def _difference(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference, relative to the size of the losses."""
    x, y = np.asarray(a), np.asarray(b)
    scale = max(float(np.abs(x).mean()), 1e-12)
    return float(np.abs(x - y).max() / scale)


def compare_curves(base: Sequence[Curve], changed: Sequence[Curve], margin: float = MARGIN) -> ReturnCheck:
    """Non-inferiority at an equal number of steps, and the time to a level that both reached."""
    until = min(curve.steps[-1] for curve in (*base, *changed) if curve.steps) if any(c.steps for c in base) else 0.0
    scores = tuple(tuple(curve.score(until) for curve in curves) for curves in (base, changed))
    pairs = [(a, b) for a, b in zip(*scores, strict=True) if a is not None and b is not None]
    if not pairs:
        return ReturnCheck(LearningVerdict.UNCLEAR, 0, until, scores)
    starts = [start for curve in base if (start := curve.start(until)) is not None]
    mean_score = float(np.mean([a for a, _ in pairs]))
    learned = mean_score - float(np.mean(starts))
    spreads = [float(np.std(late)) for curve in base if len(late := curve.late_returns(until)) > 1]
    spread = float(np.median(spreads)) if spreads else 0.0
    allowed = margin * max(abs(learned), spread)
    differences = [b - a for a, b in pairs]
    episodes = float(np.mean([len(curve.returns) * LATE for curve in base]))
    low, high = _seed_interval(differences, spread / max(1.0, episodes) ** 0.5)
    worse = LearningVerdict.WORSE if high < -allowed else LearningVerdict.UNCLEAR
    level = mean_score - allowed
    times = tuple(tuple(curve.time_to(level) for curve in curves) for curves in (base, changed))
    return ReturnCheck(
        verdict=LearningVerdict.NOT_WORSE if low > -allowed else worse,
        seeds=len(pairs),
        steps=until,
        scores=scores,
        difference=float(np.mean(differences)),
        ci95=(low, high) if np.isfinite(low) else None,
        margin=allowed,
        learned=learned,
        level=level,
        time_to_level=times,
        time_ratio=_time_ratio(times),
    )


def _time_ratio(times: Sequence[Sequence[float | None]]) -> TimeRatio | None:
    """How many times sooner the faster variant reached the level, over seeds that reached it in both; a bootstrap of seeds."""
    logs = [float(np.log(a / b)) for a, b in zip(*times, strict=True) if a and b]
    if not logs:
        return None
    low, high = stats.bootstrap_interval(logs)
    return TimeRatio(float(np.exp(np.mean(logs))), (float(np.exp(low)), float(np.exp(high))), len(logs))


def _seed_interval(differences: Sequence[float], noise: float) -> tuple[float, float]:
    """Interval of the mean difference over seeds: a bootstrap of many, Student's of few; one says nothing about others."""
    number = len(differences)
    if number > 7:
        return stats.bootstrap_interval(differences)
    if number == 1:
        return -np.inf, np.inf
    mean, error = float(np.mean(differences)), max(float(np.std(differences, ddof=1)), noise) / number**0.5
    width = float(stdtrit(number - 1, 0.975)) * error
    return mean - width, mean + width


def check_returns(
    base: Variant,
    changed: Variant,
    folder: Path,
    seeds: int,
    seconds: float,
    speedup: float,
    on_run: Callable[[str], None] = lambda _: None,
    scratch: ScratchKind | str = ScratchKind.AUTO,
    rerun: bool = True,
    patience: float = STARTING,
    until: float = math.inf,
) -> ReturnCheck:
    """Curves of both over several seeds. `seconds` is what all of them may take; `until`, on the monotonic clock, when all must
    be over: then there are fewer seeds."""
    each = seconds / seeds / (1 + 1.3 / max(speedup, 0.5))
    losses = 0 if isinstance(base.target, System) else 1  # whether it learned at all
    curves: tuple[list[Curve], list[Curve]] = ([], [])
    longest = 0.0
    for seed in range(seeds):
        began = time.monotonic()
        if seed and began + longest > until:
            break
        on_run(f"learning of the original, seed {seed}")
        options: dict[str, Any] = {"losses": losses, "scratch": scratch, "rerun": rerun}
        each = max(SHORTEST, min(each, 0.4 * (until - began)))
        options["patience"] = _in_time(patience, 2 * each, until)
        first = run_curve(base, folder, f"original-{seed}", seed, seconds=each, **options)
        on_run(f"learning of the changed variant, seed {seed}")
        steps = first.steps[-1] if first.steps else 1e18
        curves[0].append(first)
        second = run_curve(changed, folder, f"changed-{seed}", seed, steps, each, **options)
        if first.losses and not second.losses:
            raise TargetFailed(
                f"the changed variant made no update in the {units.seconds(each)} that were left to check its learning: "
                "a longer --budget would tell"
            )
        curves[1].append(second)
        longest = max(longest, time.monotonic() - began)
    return compare_curves(*curves)


def _in_time(patience: float, seconds: float, until: float) -> float:
    """Seconds that a run may take to start and to end, beyond its own, if all must be over at some time."""
    return max(1.0, min(patience, until - time.monotonic() - seconds))
