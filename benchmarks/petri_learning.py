"""Does the Petri system's fast recipe schedule well? Per seed: 500 greedy and 500 sampled episodes after training.

    python benchmarks/petri_learning.py [SEEDS]

Goals: 12 wafers finish without scrap in 95% of the episodes; 4 wafers within 5% of the shortest schedule; in 15 minutes. The
tool has no randomness, so all greedy episodes are one; sampled ones differ. Also draws Gantt charts, docs/img/petri_*.svg.
"""

import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import err, write

from hotlap.core.clock import StageClock
from hotlap.core.stats import bootstrap_interval
from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.gantt import gantt_svg
from hotlap.envs.petri.schedule import schedule
from hotlap.systems import load
from hotlap.train.evaluation import Played
from hotlap.train.rating import score_interval

EPISODES = 500
SEEDS = 3
FINISHED, ABOVE_SHORTEST, SECONDS = 0.95, 1.05, 15 * 60
# Seconds, by `python -m tests.petri_optimum 4 12`: the shortest schedule, and what no schedule can beat.
SHORTEST, AT_LEAST = {4: 945}, {4: 940, 12: 2200}
CHARTS = Path(__file__).parents[1] / "docs" / "img"


def train(wafers: int, seed: int) -> dict[str, Any]:
    """Train once, and evaluate before and after."""
    system = load("petri")
    config = replace(system.preset("fast"), wafers=wafers, seed=seed)
    with closing(system.make_env(config)) as env, closing(system.make_env(config, EPISODES)) as arena:
        state = system.start(config, env)
        before = system.trainer.evaluate(state, arena, 1, True)
        clock, begin = StageClock(enabled=False), time.perf_counter()
        while state.env_steps < config.total_steps:
            system.trainer.iterate(state, config, env, clock)
        seconds = time.perf_counter() - begin
        greedy, sampled = (system.trainer.evaluate(state, arena, 1, drawn) for drawn in (False, True))
    if seed == 0 and wafers == 12:
        draw("before", wafers, before)
        draw("after", wafers, greedy)
    plays = {"before, sampled": before, "greedy": greedy, "sampled": sampled}
    return {"seconds": seconds, "env_steps": state.env_steps} | {name: summary(wafers, play) for name, play in plays.items()}


def summary(wafers: int, played: Played) -> dict[str, Any]:
    """How many episodes finished, and the makespan of those."""
    finished, makespan = played["finished"], played["makespan"]
    makespans = makespan[finished == 1]
    result: dict[str, Any] = {
        "episodes": len(finished),
        "different": len({episode.actions for episode in played.episodes}),
        "finished": float(finished.mean()),
        "finished_ci95": score_interval(finished),
        "scrapped": float(played["scrapped"].mean()),
    }
    if len(makespans):
        best = SHORTEST.get(wafers, AT_LEAST[wafers])
        result |= {"makespan": float(makespans.mean()), "makespan_ci95": bootstrap_interval(makespans)}
        result |= {"longest": float(makespans.max()), "to_shortest": float(makespans.mean()) / best}
    return result


def draw(name: str, wafers: int, played: Played) -> None:
    """The Gantt chart of the median episode by return."""
    middle = int(np.argsort(played["return"], kind="stable")[len(played["return"]) // 2])
    made = schedule(cluster_tool(wafers), played.episodes[middle].actions)
    (CHARTS / f"petri_{name}.svg").write_text(gantt_svg(made))
    err.print(f"{name}: {made.makespan} s, {made.done} of {made.tokens} done, {len(made.scrapped)} scrapped")


def goals_met(wafers: int, run: dict[str, Any]) -> bool:
    plays = (run["greedy"], run["sampled"])
    good = run["seconds"] <= SECONDS and all(play["finished"] >= FINISHED for play in plays)
    return good and (wafers not in SHORTEST or all(play["to_shortest"] <= ABOVE_SHORTEST for play in plays))


def main() -> int:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    results: dict[str, Any] = {}
    missed = 0
    for wafers in (12, 4):
        for seed in range(seeds):
            run = results[f"{wafers} wafers, seed {seed}"] = train(wafers, seed)
            good = goals_met(wafers, run)
            missed += not good
            err.print(f"{wafers} wafers, seed {seed}: {run['seconds']:.0f} s of training; goals {'met' if good else 'NOT met'}")
            for name in ("before, sampled", "greedy", "sampled"):
                err.print(f"  {name}: {_described(run[name])}")
            write("petri_learning", "python benchmarks/petri_learning.py", results)
    return 1 if missed else 0


def _described(play: dict[str, Any]) -> str:
    low, high = play["finished_ci95"]
    text = f"{play['finished']:.1%} finished ({low:.1%}-{high:.1%}), {play['different']} different episodes"
    if "makespan" not in play:
        return text
    low, high = play["makespan_ci95"]
    return f"{text}; {play['makespan']:.0f} s ({low:.0f}-{high:.0f}), {play['to_shortest']:.3f}x the bound"


if __name__ == "__main__":
    sys.exit(main())
