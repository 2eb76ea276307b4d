"""Training on one GPU: environments there, rollouts and updates in CUDA graphs. Needs a CUDA GPU.

    python benchmarks/gpu.py [snake] [apples] [systems] [hearts] [same] [curves] [profile]

snake: steps per second of PPO by number of environments, width and precision. apples: seconds until a mean score of 20.
systems: each system with the same recipe eager, in graphs, and with environments on the CPU. hearts: an iteration of the
Hearts report's recipe. same: losses with graphs and without over 100 updates. curves: returns while learning, on the GPU or, on
a machine without one, on the CPU. profile: what profiling costs, and its busy share beside torch's profiler. Results are kept
in `results/gpu.json`.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from side_by_side import RESULTS, err, interleave, keep, speedup

import hotlap
from hotlap.core import stats
from hotlap.core.clock import StageClock
from hotlap.experiment import learning
from hotlap.launch import options
from hotlap.launch.system import profile
from hotlap.probe.gpu import union
from hotlap.record.curve import Curve
from hotlap.record.summary import profile_of
from hotlap.systems import load

Results = Iterator[tuple[str, dict[str, Any]]]  # (title, result)
ROUNDS = 5
FOREVER = 10**12  # steps: so that schedules stand still
EAGER: dict[str, Any] = {"graphs": False}
GRAPHS: dict[str, Any] = {"graphs": True}
CPU_ENVS: dict[str, Any] = {"graphs": True, "env_device": "cpu", "env_threads": 16}
RECIPE = ("num_envs", "horizon", "epochs", "batch_size", "hidden", "precision")


class Training:
    """A run of PPO that goes on and on."""

    def __init__(self, name: str, preset: str = "gpu", warm_up: int = 4, **changes: Any) -> None:
        self.system = load(name).using("ppo")
        changes = {"device": "cuda", "turbo": True, "workers": 0, "total_steps": FOREVER, **changes}
        self.config = replace(self.system.preset(preset), **changes)
        self.env = self.system.make_env(self.config)
        self.state = self.system.start(self.config, self.env)
        self.clock = StageClock.for_device("cuda")
        self.iterations = 1
        self.scores: list[float] = []
        for _ in range(warm_up):  # then capturing is over
            self.iterate()

    def iterate(self) -> Any:
        with self.clock.iteration():
            metrics = self.system.trainer.iterate(self.state, self.config, self.env, self.clock)
        self.clock.take()
        return metrics

    def __call__(self) -> int:
        before = self.state.env_steps
        for _ in range(self.iterations):
            metrics = self.iterate()
        self.scores += [metrics.means[name] for name in ("score",) if name in metrics.means]
        return int(self.state.env_steps - before)

    def last(self, seconds: float) -> "Training":
        """As many iterations per round as last so long."""
        begin = time.perf_counter()
        self.iterate()
        self.iterations = max(1, round(seconds / (time.perf_counter() - begin)))
        return self

    def close(self) -> None:
        self.env.close()
        del self.state, self.env
        torch.cuda.empty_cache()


def rates(contenders: dict[str, Training], rounds: int = ROUNDS) -> dict[str, Any]:
    named: dict[str, Any] = dict(contenders)
    samples = interleave(named, rounds)
    return {
        name: {
            "steps_per_s": 1 / stats.summarize(samples[name]).median,
            "seconds_per_step": samples[name],
            "config": {key: getattr(t.config, key) for key in RECIPE},
            "graphs": str(t.state.graphs),
            "parameters": t.state.flat.numel(),
            "mean_score": t.scores[-1] if t.scores else None,
        }
        for name, t in contenders.items()
    }


def snake() -> Results:
    """One epoch of four minibatches, with GAE, clipping, entropy and value loss; scores are recorded."""
    shapes = [(8_192, 64), (16_384, 64), (32_768, 32), (131_072, 16)]
    cases = [(shape, (128, 128), precision) for shape in shapes for precision in ("float32", "tf32", "bfloat16")]
    cases += [((32_768, 32), (512, 512), precision) for precision in ("tf32", "bfloat16")]
    cases += [(shape, (64, 64), "bfloat16") for shape in (shapes[0], shapes[-1])]
    for (envs, horizon), hidden, precision in cases:
        changes: dict[str, Any] = {"num_envs": envs, "horizon": horizon, "hidden": hidden, "precision": precision, "epochs": 1}
        training = Training("snake", batch_size=envs * horizon // 4, **changes).last(0.3)
        title = f"snake PPO, {envs:,} environments, {hidden[0]} units, {precision}"
        result = rates({"graphs": training})["graphs"]
        training.close()
        err.print(f"{title}: {result['steps_per_s'] / 1e6:.1f}M steps/s")
        yield title, result


def apples() -> Results:
    """Seconds of training, capturing included, until the episodes that ended in an iteration had a mean score of 20."""
    found = []
    for seed in range(3):
        system = load("snake").using("ppo")
        config = replace(system.preset("gpu"), seed=seed)
        env = system.make_env(config)
        begin, clock = time.perf_counter(), StageClock.for_device("cuda")
        state = system.start(config, env)
        curve = []
        for number in itertools.count():
            with clock.iteration():
                score = system.trainer.iterate(state, config, env, clock).means.get("score", 0.0)
            clock.take()
            if number % 10 == 0 or score >= 20:
                curve.append([state.env_steps, time.perf_counter() - begin, score])
            if score >= 20 or state.env_steps > config.total_steps:
                break
        arena = hotlap.make_vec("snake", 200, seed=1, features="flood")
        greedy = float(system.trainer.evaluate(state, arena, 3)["score"].mean())
        seconds, steps = curve[-1][1], state.env_steps
        found.append({"seconds": seconds, "steps": steps, "greedy_score": greedy, "curve": curve})
        err.print(f"seed {seed}: {score:.1f} apples after {seconds:.1f} s and {steps / 1e6:.0f}M steps; greedy {greedy:.1f}")
    yield "snake PPO, seconds until a mean score of 20", {"seeds": found}


def systems() -> Results:
    for name in ("snake", "cage2", "hearts", "petri", "mettagrid"):
        forms = {"eager": EAGER, "graphs": GRAPHS, "CPU environments": CPU_ENVS}
        contenders = {form: Training(name, **changes).last(0.4) for form, changes in forms.items()}
        measured = rates(contenders, 5)
        samples = {form: result["seconds_per_step"] for form, result in measured.items()}
        for slow in ("eager", "CPU environments"):
            title = f"{name}: graphs against {slow}"
            result = speedup(samples, slow, "graphs") | {"contenders": measured}
            err.print(f"{title}: {result['speedup']:.2f}x, {measured['graphs']['steps_per_s'] / 1e6:.2f}M steps/s")
            yield title, result
        for training in contenders.values():
            training.close()


def hearts() -> Results:
    """Batch 4,000 (125 tables x 32), minibatches of 32, 10 epochs, attention 128 x 2."""
    for title, changes in {"graphs": GRAPHS, "graphs, tf32": {"precision": "tf32"}, "eager": EAGER}.items():
        training = Training("hearts", "seed", warm_up=2, num_envs=125, horizon=32, **changes)
        seconds = []
        for _ in range(3):
            torch.cuda.synchronize()
            begin, updates = time.perf_counter(), training.state.updates
            training.iterate()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
        made = training.state.updates - updates
        err.print(f"hearts, {title}: {np.median(seconds):.2f} s, {made} updates; {training.state.graphs}")
        yield f"hearts, an iteration of the report's recipe, {title}", {"seconds": seconds, "updates": made}
        training.close()


def same() -> Results:
    """The largest difference of losses over 100 updates."""
    for name in ("snake", "cage2", "hearts", "petri", "mettagrid"):
        runs = [Training(name, total_steps=10**8, **form) for form in (EAGER, GRAPHS)]
        worst = 0.0
        while runs[0].state.updates < 100:
            one, other = (run.iterate().scalars for run in runs)
            worst = max(worst, *(abs(other[key] - value) / (abs(value) + 1e-3) for key, value in one.items()))
        compared = {"largest_relative_difference": worst, "updates": runs[0].state.updates}
        yield f"{name}: losses with graphs and without", compared
        err.print(f"{name}: losses differ by {worst:.2g}")
        for run in runs:
            run.close()


CURVE = "snake: returns of 5 seeds on {}"


def curves() -> Results:
    """On the GPU, or on the CPU where there is none; compared once both are there."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = {"num_envs": 1_024, "batch_size": 4_096, "total_steps": 6_000_000}
    system = load("snake").using("ppo")
    found = []
    for seed in range(5):
        config = replace(system.preset("fast"), device=device, seed=seed, **shape)
        env, clock = system.make_env(config), StageClock()
        state = system.start(config, env)
        points = []
        while state.env_steps < config.total_steps:
            means = system.trainer.iterate(state, config, env, clock).means
            if "return" in means:
                points.append((float(state.env_steps), means["return"]))
        found.append([list(column) for column in zip(*points, strict=True)])
        env.close()
        err.print(f"{device}, seed {seed}: {points[-1][1]:.1f}")
    yield CURVE.format(device), {"steps, returns": found}
    kept = json.loads((RESULTS / "gpu.json").read_text())["results"]
    known = {where: kept[CURVE.format(where)]["steps, returns"] for where in ("cpu", "cuda") if CURVE.format(where) in kept}
    if len(known) < 2:
        return
    of = {where: [Curve(tuple(x), tuple(x), tuple(y)) for x, y in seeds] for where, seeds in known.items()}
    for base, changed in (("cpu", "cuda"), ("cuda", "cpu")):
        check = learning.compare_curves(of[base], of[changed])
        err.print(f"{changed} against {base}: {check.verdict.value}, {check.difference} {check.ci95}, allowed {check.margin}")
        numbers = {name: getattr(check, name) for name in ("difference", "ci95", "margin", "scores")}
        yield f"snake: returns on {changed} against {base}, 5 seeds", {"verdict": check.verdict.value, **numbers}


def profile_cost() -> Results:
    """The profile of `hotlap profile snake --algo ppo --preset gpu`, and the busy share by torch's profiler itself."""
    system = load("snake").using("ppo")
    config = replace(system.preset("gpu"), total_steps=FOREVER)
    run = profile(system, config, options.ProfileOptions(iterations=60, warmup=5))
    found = profile_of(run)
    training = Training("snake")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profiler:
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(5):
            training.iterate()
        torch.cuda.synchronize()
        wall = time.perf_counter_ns() - begin
    events = [e for e in profiler.profiler.kineto_results.events() if "CUDA" in str(e.device_type())]
    busy = union([(e.start_ns(), e.start_ns() + e.duration_ns()) for e in events]) / wall
    shares = {path: stage.share for path, stage in found.stages.items()}
    result = {
        "shares": shares,
        "sum_of_shares": sum(shares.values()),
        "overhead": found.measuring.overhead,
        "measured_over_bare": vars(found.measuring.overhead_ab) if found.measuring.overhead_ab else None,
        "gpu": vars(found.gpu) if found.gpu else None,
        "busy_by_torch_profiler": busy,
    }
    err.print(
        f"sum {sum(shares.values()):.3f}, overhead {found.measuring}, busy {found.gpu_busy}, by torch's profiler {busy:.3f}"
    )
    yield "hotlap profile snake --algo ppo --preset gpu", result


PARTS = {
    "snake": snake,
    "apples": apples,
    "systems": systems,
    "hearts": hearts,
    "same": same,
    "curves": curves,
    "profile": profile_cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them, if none is given")
    for part in parser.parse_args().parts or PARTS:
        for title, result in PARTS[part]():
            keep("gpu", f"python benchmarks/gpu.py {part}", {title: result})


if __name__ == "__main__":
    main()
