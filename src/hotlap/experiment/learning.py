"""Does the faster form learn as well? Curves of both with the same seeds, side by side.

What cannot change learning is held to more: its losses must be the same numbers. What can is held to not being worse: at an
equal number of steps, the return of the faster form may lie below the original's by no more than a margin, a share of what the
original learned; the interval is over seeds, as rliable has it (a bootstrap of seeds), and few seeds give wide ones.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from hotlap.core import stats
from hotlap.core.errors import TargetFailed
from hotlap.experiment.interleave import Side
from hotlap.interventions import VARIABLE

SAME, AS_GOOD, WORSE, UNCLEAR = "same losses", "not worse", "worse", "cannot tell"
NOT_REPEATABLE = "not repeatable"
MARGIN = 0.1  # of what the original learned, and of the spread of its returns at least
LAST = 0.25  # of the steps: their episodes are the score
LOSSES = 40  # that are compared; of a system, the means of so many iterations:
ITERATIONS = 3
CLOSE = 1e-4  # relative difference up to which losses are called the same: threads add numbers up in another order


@dataclass(frozen=True)
class Curve:
    """Episodes of one run: after how many steps and seconds they ended, and their returns; and the first losses."""

    steps: list[float]
    seconds: list[float]
    returns: list[float]
    losses: list[float]

    def late(self, until: float) -> list[float]:
        """Returns of episodes that ended in the last quarter of the steps."""
        return [r for s, r in zip(self.steps, self.returns, strict=True) if until * (1 - LAST) < s <= until]

    def score(self, until: float) -> float | None:
        late = self.late(until)
        return float(np.mean(late)) if late else None

    def start(self, until: float) -> float | None:
        early = [r for s, r in zip(self.steps, self.returns, strict=True) if s <= until * 0.1] or self.returns[:5]
        return float(np.mean(early)) if early else None

    def time_to(self, level: float, window: int = 20) -> float | None:
        """Seconds until the mean return of some episodes first reached a level."""
        if len(self.returns) < window:
            return None
        means = np.convolve(self.returns, np.ones(window) / window, "valid")
        reached = np.flatnonzero(means >= level)
        return float(self.seconds[int(reached[0]) + window - 1]) if len(reached) else None


def run_curve(
    side: Side,
    folder: Path,
    name: str,
    seed: int,
    steps: float = 1e18,
    seconds: float = 1e9,
    losses: int = 0,
    episodes: bool = True,
) -> Curve:
    """Run a script or a system for its curve, in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    out, log = folder / f"{name}.jsonl", folder / f"{name}.log"
    spec = {
        "script": side.script,
        "module": side.module,
        "system": side.system,
        "algorithm": side.algorithm,
        "config": {**side.config, "seed": side.config["seed"] + seed} if side.system else {},
        "out": str(out.resolve()),
        "steps": steps,
        "seconds": seconds,
        "losses": losses,
        "episodes": episodes,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(spec))
    environment = {**os.environ, **side.environment}
    environment[VARIABLE] = json.dumps([["seed", {"offset": seed}], *json.loads(environment.get(VARIABLE, "[]"))])
    command = [sys.executable, "-m", "hotlap.launch.curve", str(path), *side.arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            code = process.wait(timeout=seconds + 120)
        except subprocess.TimeoutExpired:  # it makes no steps that hotlap sees; what there is counts
            code = 0
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # workers that outlived it, or all of it
            process.wait()
            path.unlink(missing_ok=True)  # it holds paths of this machine
    if code:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise TargetFailed(f"{side.name} failed while its learning was checked: {' '.join(last)[:200]}")
    return read_curve(out)


def read_curve(path: Path) -> Curve:
    found = Curve([], [], [], [])
    for line in path.read_text().splitlines():
        with suppress(ValueError, KeyError):  # a line that was cut off
            row = json.loads(line)
            if "loss" in row:
                found.losses.append(row["loss"])
                continue
            found.returns.append(row["return"])
            found.steps.append(row["steps"])
            found.seconds.append(row["seconds"])
    return found


def same_losses(base: Side, changed: Side, folder: Path, seconds: float = 60.0) -> dict[str, Any]:
    """Whether both compute the same losses, from the same seed. The original against itself says whether that can be asked."""
    wanted = ITERATIONS if base.system else LOSSES
    runs = [
        run_curve(side, folder, name, 0, seconds=seconds, losses=wanted, episodes=False).losses
        for side, name in ((base, "losses-original"), (base, "losses-again"), (changed, "losses-changed"))
    ]
    number = min(map(len, runs))
    found: dict[str, Any] = {"kind": "losses", "compared": number}
    if not number:
        return found | {"verdict": UNCLEAR, "difference": None}
    itself, other = _difference(runs[0][:number], runs[1][:number]), _difference(runs[0][:number], runs[2][:number])
    if itself > CLOSE:
        return found | {"verdict": NOT_REPEATABLE, "difference": itself}
    return found | {"verdict": SAME if other <= CLOSE else "other losses", "difference": other}


def _difference(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference, relative to the size of the losses."""
    x, y = np.asarray(a), np.asarray(b)
    scale = max(float(np.abs(x).mean()), 1e-12)
    return float(np.abs(x - y).max() / scale)


def compare_curves(base: Sequence[Curve], changed: Sequence[Curve], margin: float = MARGIN) -> dict[str, Any]:
    """Non-inferiority at an equal number of steps, and the time to a level that both reached."""
    until = min(curve.steps[-1] for curve in (*base, *changed) if curve.steps) if any(c.steps for c in base) else 0.0
    scores = [[curve.score(until) for curve in curves] for curves in (base, changed)]
    starts = [start for curve in base if (start := curve.start(until)) is not None]
    pairs = [(a, b) for a, b in zip(*scores, strict=True) if a is not None and b is not None]
    found: dict[str, Any] = {"kind": "returns", "seeds": len(pairs), "steps": until, "scores": scores}
    if not pairs:
        return found | {"verdict": UNCLEAR, "difference": None, "ci95": None, "margin": None, "time_to_level": None}
    learned = float(np.mean([a for a, _ in pairs])) - float(np.mean(starts))
    spreads = [float(np.std(late)) for curve in base if len(late := curve.late(until)) > 1]
    spread = float(np.median(spreads)) if spreads else 0.0
    allowed = margin * max(abs(learned), spread)
    differences = [b - a for a, b in pairs]
    episodes = float(np.mean([len(curve.returns) * LAST for curve in base]))
    low, high = _seed_interval(differences, spread / max(1.0, episodes) ** 0.5)
    value = float(np.mean(differences))
    verdict = AS_GOOD if low > -allowed else WORSE if high < -allowed else UNCLEAR
    level = float(np.mean([a for a, _ in pairs])) - allowed
    times = [[curve.time_to(level) for curve in curves] for curves in (base, changed)]
    return found | {
        "verdict": verdict,
        "difference": value,
        "ci95": [low, high] if np.isfinite(low) else None,
        "margin": allowed,
        "learned": learned,
        "level": level,
        "time_to_level": times,
        "time_ratio": _time_ratio(times),
    }


def _time_ratio(times: Sequence[Sequence[float | None]]) -> dict[str, Any] | None:
    """How many times sooner the faster form reached the level, over seeds that reached it in both; a bootstrap of seeds."""
    logs = [float(np.log(a / b)) for a, b in zip(*times, strict=True) if a and b]
    if not logs:
        return None
    low, high = stats.bootstrap_interval(logs)
    return {"ratio": float(np.exp(np.mean(logs))), "ci95": [float(np.exp(low)), float(np.exp(high))], "seeds": len(logs)}


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
    base: Side,
    changed: Side,
    folder: Path,
    seeds: int,
    seconds: float,
    speedup: float,
    on_run: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Curves of both over several seeds. `seconds` is what all of them may take."""
    each = seconds / seeds / (1 + 1.3 / max(speedup, 0.5))
    curves: tuple[list[Curve], list[Curve]] = ([], [])
    for seed in range(seeds):
        on_run(f"learning of the original, seed {seed}")
        first = run_curve(base, folder, f"original-{seed}", seed, seconds=each)
        on_run(f"learning of the faster form, seed {seed}")
        steps = first.steps[-1] if first.steps else 1e18
        curves[0].append(first)
        curves[1].append(run_curve(changed, folder, f"changed-{seed}", seed, steps=steps, seconds=each))
    return compare_curves(*curves)
