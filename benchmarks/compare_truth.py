"""How far `hotlap compare` can be trusted: a target against itself, and against itself with known work added to one stage.

    python benchmarks/compare_truth.py [--trials 100] [--controls 100]

Each trial is a comparison as users make it: rounds of fresh processes, interleaved. In a trial, the plain script, the plain
script again, and the script with 3, 5, 10 and 30% more work in its environment run interleaved; in a control, three times the
plain script. Raw ratios are kept. `--simulate` does the same with drawn samples of known kinds, in a minute.
"""

import argparse
import json
import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from side_by_side import RESULTS, err

from hotlap.core import machine, stats
from hotlap.experiment import compare
from hotlap.experiment.interleave import interleave
from hotlap.experiment.rows import compare_blocks
from hotlap.launch.scratch import ScratchKind
from hotlap.record.blocks import BlockLine, Schedule
from hotlap.record.comparison import RowKind, Verdict
from hotlap.record.header import Verb
from hotlap.record.machine import Machine
from hotlap.record.run import Run
from hotlap.target.target import Script, Variant

SCRIPT = Path(__file__).with_name("scripts") / "known_cost.py"
EFFECTS = (0.03, 0.05, 0.10, 0.30)
ROUNDS, SCHEDULE = 5, Schedule(block=0.05, blocks=5, warmup=1)
STAGE = "collect/env_step"


def variant(name: str, extra: float = 0.0) -> Variant:
    return Variant(name, Script(str(SCRIPT), arguments=(str(extra),)))


def run_rounds(variants: list[Variant], seed: int, folder: Path) -> list[BlockLine]:
    run = Run.create(Verb.COMPARE, SCRIPT.name, {}, Machine(), folder / f"{len(variants)}-{seed}")
    rounds = interleave(run, variants, replace(SCHEDULE, seed=seed), scratch=ScratchKind.AUTO)
    return [line for _ in range(ROUNDS) for line in next(rounds)]


def judged(lines: list[BlockLine], other: str, truth: float) -> dict[str, Any]:
    comparison = compare_blocks(lines, "plain", other, "env_steps", 0.02)
    parts = {
        row.name: row.contribution.value or 0.0 for row in comparison.rows if row.kind is RowKind.STAGE and row.contribution
    }
    low, high = comparison.ci95 or (0.0, float("inf"))
    return {
        "verdict": str(comparison.verdict),
        "ratio": comparison.ratio,
        "ci95": [low, high],
        "covers": bool(low <= 1 / (1 + truth) <= high),
        "stage": max(parts, key=lambda path: abs(parts[path])),
        "smallest_effect": comparison.smallest_effect,
        "ratios": [[round(ratio, 5) for ratio in pairs] for pairs in comparison.ratios],
    }


def measure(trials: int, controls: int) -> dict[str, Any]:
    raw: dict[str, list[dict[str, Any]]] = {name: [] for name in ("itself", *(f"{effect:.0%}" for effect in EFFECTS))}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variants = [variant("plain"), variant("itself"), *(variant(f"{effect:.0%}", effect) for effect in EFFECTS)]
        for seed in track(range(trials), description="trials", console=err):
            lines = run_rounds(variants, seed, folder)
            raw["itself"].append(judged(lines, "itself", 0.0))
            for effect in EFFECTS:
                raw[f"{effect:.0%}"].append(judged(lines, f"{effect:.0%}", effect))
        for seed in track(range(controls // 2), description="controls", console=err):
            lines = run_rounds([variant("plain"), variant("itself"), variant("again")], 10_000 + seed, folder)
            raw["itself"] += [judged(lines, other, 0.0) for other in ("itself", "again")]
    return raw


def simulate(trials: int = 2_000) -> dict[str, dict[str, float]]:
    """Coverage of the interval on samples of known kinds: five rounds of six pairs, and with the stopping rule."""
    rng = np.random.default_rng(0)

    def round_of(kind: str) -> np.ndarray[Any, Any]:
        process = rng.normal(0, 0.01)
        noise = rng.normal(0, 0.03, 6)
        if kind == "skewed":
            noise = rng.exponential(0.03, 6) - rng.exponential(0.03, 6)
        elif kind == "autocorrelated":
            for i in range(1, 6):
                noise[i] = 0.8 * noise[i - 1] + 0.6 * noise[i]
        elif kind == "bimodal":
            noise = noise / 3 + 0.06 * (rng.random(6) < 0.3) - 0.06 * (rng.random(6) < 0.3)
        elif kind == "drifting":
            noise += np.linspace(-0.03, 0.03, 6) * rng.choice([-1, 1])
        elif kind == "heavy tails":
            noise = 0.03 * rng.standard_t(2, 6)
        return process + noise

    coverage: dict[str, dict[str, float]] = {}
    for kind in ("normal", "skewed", "autocorrelated", "bimodal", "drifting", "heavy tails"):
        fixed = stopped = 0
        for _ in range(trials):
            rounds = [round_of(kind) for _ in range(5)]
            effect = stats.rounds_effect(rounds)
            fixed += effect.low <= 0 <= effect.high
            rounds = rounds[:3]
            while len(rounds) < 20:
                rounds.append(round_of(kind))
                effect = stats.rounds_effect(rounds)
                if len(rounds) >= compare.MIN_ROUNDS and effect.width <= 0.02:
                    break
            stopped += effect.low <= 0 <= effect.high
        coverage[kind] = {"five rounds": fixed / trials, "until 2%": stopped / trials}
    return coverage


def report(raw: dict[str, list[dict[str, Any]]], simulated: dict[str, dict[str, float]]) -> None:
    summary: dict[str, Any] = {}
    for name, trials in raw.items():
        if not trials:
            continue
        different = [t for t in trials if t["verdict"] in (Verdict.FASTER, Verdict.SLOWER)]
        summary[name] = {
            "trials": len(trials),
            "called different": len(different) / len(trials),
            "called slower": sum(t["verdict"] == Verdict.SLOWER for t in trials) / len(trials),
            "interval covers the truth": sum(t["covers"] for t in trials) / len(trials),
            "largest contribution is the stage": sum(t["stage"] == STAGE for t in trials) / len(trials),
            "median smallest effect": float(np.median([t["smallest_effect"] for t in trials])),
        }
        print(name, json.dumps(summary[name]))
    for kind, coverage in simulated.items():
        print("simulated:", kind, json.dumps(coverage))
    document = {
        "schema": "hotlap.benchmark/1",
        "command": "python benchmarks/compare_truth.py",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "rounds": ROUNDS,
        "options": vars(SCHEDULE),
        "summary": summary,
        "simulated": simulated,
        "raw": raw,
    }
    (RESULTS / "compare_truth.json").write_text(json.dumps(document) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--controls", type=int, default=100)
    parser.add_argument("--simulate", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.simulate:
        for kind, coverage in simulate().items():
            print(kind, json.dumps(coverage))
        return
    report(measure(args.trials, args.controls), simulate())


if __name__ == "__main__":
    main()
