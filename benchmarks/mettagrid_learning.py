"""Does the MettaGrid system's fast recipe solve the navigation task? Per seed: 50 greedy and 50 sampled episodes.

    python benchmarks/mettagrid_learning.py [--seeds 3] [--threads 2] [--steps N] [--seconds S] [--preset fast] [--flag value]

Goal: with the recurrent model, 90% of the reachable reward, which is every heart of the map, within 15 minutes of training on 2
cores. Also keeps the learning curve and the shares of collecting and learning. Further flags change the recipe, as those of
`hotlap train mettagrid` do: `--learning-rate 0.002`. With `--seconds` all recipes train equally long: learning per second.
"""

import argparse
import json
import math
import sys
import time
from contextlib import closing
from dataclasses import fields, replace
from typing import Any

import numpy as np
from side_by_side import err, keep

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.stats import bootstrap_interval
from hotlap.systems import load
from hotlap.train.evaluation import Played

ENVIRONMENTS = 50  # of four agents each, in an evaluation
FOUND, SECONDS = 0.9, 15 * 60
SHOWN_EVERY = 30.0  # seconds


def train(config: Any, limit: float) -> dict[str, Any]:
    """Train once, at most for so many seconds, and evaluate before and after."""
    system = load("mettagrid")
    with closing(system.make_env(config)) as env, closing(system.make_env(config, ENVIRONMENTS)) as arena:
        state = system.start(config, env)
        before = system.trainer.evaluate(state, arena, 1, True)
        clock, begin, shown = StageClock(), time.perf_counter(), 0.0
        curve: list[list[float | None]] = []
        times: dict[str, float] = {}
        while state.env_steps < config.total_steps and time.perf_counter() - begin < limit:
            with clock.iteration():
                metrics = system.trainer.iterate(state, config, env, clock)
            for sample in clock.take():
                for stage, spent in sample.exclusive.items():
                    times[stage] = times.get(stage, 0.0) + spent * 1e-9
            found, seconds = metrics.episodes.get("found"), time.perf_counter() - begin
            curve.append([state.env_steps, round(seconds, 2), round(float(np.mean(found)), 4) if found else None])
            if seconds - shown > SHOWN_EVERY:
                shown = seconds
                recent = [point[2] for point in curve[-30:] if point[2] is not None]
                rate = state.env_steps / seconds
                score = f"found {np.mean(recent):.1%}" if recent else "no episode has ended yet"
                err.print(f"  {seconds:.0f} s, {state.env_steps:,} steps, {rate:,.0f} steps/s: {score}")
        seconds = time.perf_counter() - begin
        greedy, sampled = (system.trainer.evaluate(state, arena, 1, drawn) for drawn in (False, True))
    total = sum(times.values())
    return {
        "seconds": seconds,
        "env_steps": state.env_steps,
        "steps_per_second": state.env_steps / seconds,
        "shares": {
            stage: round(spent / total, 4) for stage, spent in sorted(times.items(), key=lambda item: stages.order(item[0]))
        },
        "before, sampled": summary(before),
        "greedy": summary(greedy),
        "sampled": summary(sampled),
        "curve of steps, seconds, found": curve,
    }


def summary(played: Played) -> dict[str, Any]:
    """The share of the hearts that was found, and how long that took."""
    found = played["found"]
    return {
        "episodes": len(found),
        "found": float(found.mean()),
        "found_ci95": bootstrap_interval(found),
        "return": float(played["return"].mean()),
        "length": float(played["length"].mean()),
    }


def goal_met(run: dict[str, Any]) -> bool:
    return bool(run["seconds"] <= SECONDS and max(run["greedy"]["found"], run["sampled"]["found"]) >= FOUND)


def share(run: dict[str, Any], *parts: str) -> float:
    return sum(float(spent) for stage, spent in run["shares"].items() if stage.partition("/")[0] in parts)


def changed(config: Any, flags: list[str]) -> Any:
    """The recipe with some fields changed: `--name value`, in JSON where it is no word."""
    known = {field.name for field in fields(config)}
    values: dict[str, Any] = {}
    for flag, text in zip(flags[::2], flags[1::2], strict=True):
        name = flag.removeprefix("--").replace("-", "_")
        if name not in known:
            sys.exit(f"unknown flag {flag}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        values[name] = tuple(value) if isinstance(value, list) else value
    return replace(config, **values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--steps", type=int, default=None, help="environment steps; those of the preset if not given")
    parser.add_argument("--seconds", type=float, default=math.inf, help="train no longer than that")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--name", default="mettagrid_learning", help="of the file of results")
    args, flags = parser.parse_known_args()
    preset = load("mettagrid").preset(args.preset)
    config = changed(replace(preset, torch_threads=args.threads, total_steps=args.steps or preset.total_steps), flags)
    command = " ".join(["python", "benchmarks/mettagrid_learning.py", *sys.argv[1:]])
    missed = 0
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        run = train(replace(config, seed=seed), args.seconds)
        good = goal_met(run)
        missed += not good
        rate = f"{run['steps_per_second']:,.0f} steps/s, collecting {share(run, 'collect'):.0%}"
        learning = share(run, "update", "sample", "advantage")
        err.print(f"seed {seed}: {run['seconds']:.0f} s, {rate}, learning {learning:.0%}; goal {'met' if good else 'NOT met'}")
        for name in ("before, sampled", "greedy", "sampled"):
            low, high = run[name]["found_ci95"]
            err.print(f"  {name}: {run[name]['found']:.1%} found ({low:.1%}-{high:.1%}), {run[name]['length']:.0f} steps")
        title = " ".join([args.preset, *flags, *([f"{args.seconds:.0f} s"] if args.seconds < math.inf else []), f"seed {seed}"])
        keep(args.name, command, {title: run}, indent=None)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
