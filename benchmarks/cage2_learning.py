"""Does the CAGE2 system's fast recipe defend well? Per seed: training, then the challenge's protocol, 1,000 episodes a case.

    python benchmarks/cage2_learning.py
    python benchmarks/cage2_learning.py --seeds 3 --minutes 20 --threads 2
    python benchmarks/cage2_learning.py --seeds 8 --jobs 8 --minutes 8 --keep benchmarks/results -- --hidden 256 256

One policy against all red agents. Goals, over 100 steps: a mean of at least -25 against B_line and -30 against Meander, on 2
cores in 20 minutes. Flags after `--` are those of `hotlap train cage2`. `--keep` copies the best checkpoint there.
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from side_by_side import RESULTS, err

from hotlap.core import machine
from hotlap.core.clock import StageClock
from hotlap.record.run import load as load_run
from hotlap.systems import load
from hotlap.systems.configs import config_from
from hotlap.target import words
from hotlap.target.target import System
from hotlap.train import checkpoint, loop

GOALS = {"b_line, 100 steps": -25.0, "meander, 100 steps": -30.0}
PUBLIC = {"b_line, 100 steps": -13.76, "meander, 100 steps": -16.6}  # the challenge's winner
SECONDS = 20 * 60
MEASURED = 8  # iterations that tell how many steps fit into some minutes, after as many that warm up


def configured(arguments: argparse.Namespace, seed: int) -> Any:
    target = words.variant("cage2", extra=arguments.flags).target
    assert isinstance(target, System)
    config = config_from(load("cage2"), target.config)
    config = replace(config, seed=seed, torch_threads=arguments.threads, env_threads=arguments.threads)
    if arguments.total_steps:
        config = replace(config, total_steps=arguments.total_steps)
    return replace(config, total_steps=steps_in(config, 60 * arguments.minutes)) if arguments.minutes else config


def steps_in(config: Any, seconds: float) -> int:
    """How many steps can be trained for in that time; measured, so that schedules end when it is over."""
    system, clock = load("cage2"), StageClock(enabled=False)
    env = system.make_env(config)
    state = system.start(config, env)
    for iteration in range(2 * MEASURED):
        if iteration == MEASURED:
            begin, before = time.perf_counter(), state.env_steps
        system.trainer.iterate(state, config, env, clock)
    env.close()
    return int((state.env_steps - before) * seconds / (time.perf_counter() - begin))


def train(arguments: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    system, begin = load("cage2"), time.perf_counter()
    config = configured(arguments, seed)
    finished = loop.train(system, config, folder, options=loop.Options(60, evaluation_episodes=arguments.episodes))
    assert finished is not None
    training = load_run(folder).header.training
    assert training.evaluation is not None
    seconds = time.perf_counter() - begin
    evaluation = {case.case: asdict(case) for case in training.evaluation.cases}
    return {"seed": seed, "seconds": seconds, "steps": config.total_steps, "config": asdict(config), "cases": evaluation}


def goals_met(run: dict[str, Any]) -> bool:
    return run["seconds"] <= SECONDS and all(run["cases"][case]["mean_return"] >= goal for case, goal in GOALS.items())


def total(run: dict[str, Any]) -> float:
    return float(sum(case["mean_return"] for case in run["cases"].values()))


def show(run: dict[str, Any]) -> None:
    err.print(f"seed {run['seed']}: {run['steps'] / 1e6:,.0f}M steps, {run['seconds']:,.0f} s, sum {total(run):.2f}")
    for name, case in run["cases"].items():
        low, high = case["ci95"]
        public = f"   (public record {PUBLIC[name]})" if name in PUBLIC else ""
        err.print(f"  {name:<20} {case['mean_return']:8.2f}  ({low:.2f} to {high:.2f}), std {case['std']:.2f}{public}")


def keep(command: str, runs: list[dict[str, Any]], name: str) -> None:
    document: dict[str, Any] = {"schema": "hotlap.benchmark/1", "command": command}
    document |= {"created": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine.describe()}
    RESULTS.mkdir(exist_ok=True)
    results = {f"seed {run['seed']}": run | {"goals_met": goals_met(run)} for run in sorted(runs, key=lambda run: run["seed"])}
    (RESULTS / f"{name}.json").write_text(json.dumps({**document, "results": results}, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="seeds trained at once; their seconds are hints then")
    parser.add_argument("--minutes", type=float, default=0.0, help="train for so long, instead of a number of steps")
    parser.add_argument("--total-steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of each seed")
    parser.add_argument("--episodes", type=int, default=1_000, help="of each case")
    parser.add_argument("--keep", type=Path, help="a folder for the best checkpoint, cage2.safetensors")
    parser.add_argument("--name", default="cage2_learning", help="of the file with the results")
    parser.add_argument("flags", nargs="*", help="of `hotlap train cage2`, after --")
    arguments = parser.parse_args()
    command, runs = " ".join(["python", "benchmarks/cage2_learning.py", *sys.argv[1:]]), []
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool,
    ):
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        folders = {seed: Path(scratch) / str(seed) for seed in seeds}
        for future in as_completed([pool.submit(train, arguments, seed, folder) for seed, folder in folders.items()]):
            runs.append(future.result())
            show(runs[-1])
            keep(command, runs, arguments.name)
            best = max(runs, key=total)
            if arguments.keep and best is runs[-1]:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(folders[best["seed"]] / checkpoint.NAME, arguments.keep / "cage2.safetensors")
    return 0 if all(goals_met(run) for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
