"""Sweeps: what a curve says, how time grows with the work done, delays, and every way through the CLI."""

import json
from pathlib import Path

import numpy as np
import pytest

from hotlap.core.sample import Sample
from hotlap.experiment.growth import reached
from hotlap.experiment.sweep import scaling
from hotlap.record.comparison import Work
from hotlap.record.growth import growth_of
from hotlap.record.profile import GrowthCause
from hotlap.record.sweep import Reading, SweepPoint
from hotlap.report.sections import growth_sentence
from hotlap.report.sweep import _segment
from tests.test_compare import SCRIPT, hotlap

# -- sweeps and growth --


def point(value, rate, **work):
    return SweepPoint(f"n={value}", {"n": str(value)}, rate, **work)


def test_segments_and_knee_of_a_scaling_curve():
    curve = scaling([point(1, 10), point(8, 78), point(64, 200), point(512, 210), point(4096, 100)], "n")
    assert [segment.reading for segment in curve.segments] == [
        Reading.LATENCY_BOUND,
        Reading.PARTLY_LATENCY_BOUND,
        Reading.WORK_BOUND,
        Reading.CONTENDED,
    ]
    assert curve.knee.value == 64
    assert scaling([point("a", 1), point("b", 2)], "n") is None


def run_of(lengths, seconds=lambda i: 0.1, updates=lambda i: 10):
    """Iterations of 1,000 steps, with episodes of these lengths."""
    return [
        Sample(
            0,
            int(seconds(i) * 1e9),
            {"sample": i * 1000},
            {"sample": i * 1000},
            {},
            {"env_steps": 1000, "episodes": 1000 / n, "updates": updates(i)},
        )
        for i, n in enumerate(lengths)
    ]


def test_longer_episodes_are_no_slowdown():
    samples = run_of(np.linspace(10, 300, 200))
    growth = growth_of(samples)
    rows = {row.work: row for row in growth.rows}
    assert rows["episodes"].superlinear and not rows["env_steps"].superlinear
    assert rows["env_steps"].exponent == pytest.approx(1, abs=0.02)
    (reason,) = growth.why
    assert reason.cause is GrowthCause.LONGER_EPISODES and "Episodes got longer" in growth_sentence(reason)
    _, last = reached(samples, "episodes", [200, 2000])
    assert last.seconds > 1.5 * last.expected_seconds
    assert last.seconds == pytest.approx(last.expected_by_steps, rel=0.1)


def test_a_step_that_costs_more_and_more_is_a_slowdown():
    growth = growth_of(run_of([10] * 200, seconds=lambda i: 0.01 * (i + 1)))
    rows = {row.work: row for row in growth.rows}
    assert rows["env_steps"].superlinear
    (reason,) = growth.why
    assert (reason.cause, reason.stage) == (GrowthCause.SLOWER_STEPS, "sample") and "costs" in growth_sentence(reason)


def test_few_counts_are_no_growth():
    samples = run_of([10] * 7)
    for sample, episodes in zip(samples, [0, 0, 1, 0, 0, 0, 8], strict=True):
        sample.counts["episodes"] = episodes
    assert "episodes" not in {row.work for row in growth_of(samples).rows}


def test_points_that_learn_differently_are_said_so():
    def made(n, rate, updates):
        stages = {"collect/act": 1 / rate, "update/loss": updates}
        return point(n, rate, work=Work(updates_per_env_step=updates), per_iteration={"env_steps": 100 * n}, stages=stages)

    (segment,) = scaling([made(1, 10, 1.0), made(10, 100, 0.1)], "n").segments
    assert segment.reading is Reading.LEARNS_DIFFERENTLY
    assert segment.collecting is Reading.LATENCY_BOUND
    assert "1 to 0.1 updates per env step; collecting alone is latency-bound" in _segment(segment)


def test_learning_that_begins_is_said():
    growth = growth_of(run_of([10] * 200, seconds=lambda i: 0.01 if i < 40 else 0.2, updates=lambda i: 0 if i < 40 else 10))
    (reason,) = growth.why
    assert reason.cause is GrowthCause.LEARNING_BEGAN and "Learning began" in growth_sentence(reason)


# -- through the command line --


def test_a_sweep_goes_on_without_a_point_that_fails(tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys\nassert sys.argv[-1] != '7', 'seven'\nsys.argv = sys.argv[:1]\n" + Path(SCRIPT).read_text()
    )
    args = [
        "sweep",
        "train.py",
        "--vary",
        "n=1,7,2",
        "--budget",
        "3s",
        "--blocks",
        "3",
        "--block",
        "0.08s",
        "--warmup",
        "0",
        "--json",
    ]
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert [bool(point["throughput"]) for point in doc["points"]] == [True, False, True]
    assert any("seven" in warning for warning in doc["warnings"])


def test_sweep_a_system(tmp_path):
    args = ["sweep", "snake", "--env-only", "--vary", "num_envs=1,16,256", "--budget", "6s", "--blocks", "3", "--block", "0.1s"]
    result = hotlap(*args, "--json", "--out", "s", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert [p["values"]["num_envs"] for p in doc["points"]] == ["1", "16", "256"]
    assert doc["best"] in [p["name"] for p in doc["points"]] and len(doc["scaling"]["segments"]) == 2
    assert "Knee" in hotlap("report", "s", cwd=tmp_path).stdout
    assert hotlap("report", "s", "--format", "html", cwd=tmp_path).returncode == 0


def test_sweep_until(tmp_path):
    target = "snake --num-envs 32 --iteration-steps 8 --learning-starts 500 --updates-per-step 1"
    for bad in ("episodes=0,1", "episodes=inf", "episodes=few"):
        assert "numbers above 0" in hotlap("sweep", target, "--until", bad, cwd=tmp_path).stderr
    result = hotlap("sweep", target, "--until", "episodes=50,400", "--json", "--out", "u", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert [row["count"] for row in doc["reached"]] == [50, 400]
    assert doc["reached"][1]["env_steps"] > doc["reached"][0]["env_steps"]
    assert "Time to reach a number of episodes" in hotlap("report", "u", cwd=tmp_path).stdout


DELAYED = """
import sys, time
sys.path.insert(0, {folder!r})
import gymnasium, numpy as np
from gymnasium.vector import {kind}
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,)); action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None): return np.zeros(2, np.float32), {{}}
    def step(self, action):
        time.sleep(0.0005)
        return np.zeros(2, np.float32), 0.0, False, False, {{}}
if __name__ == "__main__":
    env = {kind}([Env] * 2)
    env.reset()
    while True:
        env.step([0, 0])
"""


def sweep_delays(kind, tmp_path, budget):
    (tmp_path / "train.py").write_text(DELAYED.format(kind=kind, folder=str(tmp_path)))
    args = ["sweep", "train.py", "--delay", "env_step", "--blocks", "4", "--block", "0.2s", "--warmup", "0"]
    result = hotlap(*args, "--budget", budget, "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(("kind", "workers"), [("SyncVectorEnv", False), ("AsyncVectorEnv", True)])
def test_delays_reach_the_stage(kind, workers, tmp_path):
    doc = sweep_delays(kind, tmp_path, "1s")
    assert doc["in_workers"] == workers and doc["delay"] == "collect/env_step"
    injected = [point["injected"] for point in doc["delayed"]]
    assert injected[0] == 0 and injected == sorted(injected) and injected[-1] > 0
    assert doc["slope"] is not None and len(doc["projections"]) == 3


@pytest.mark.truth
@pytest.mark.parametrize(("kind", "low", "high"), [("SyncVectorEnv", 0.7, 1.4), ("AsyncVectorEnv", 0.2, 1.4)])
def test_delays_tell_overlap(kind, low, high, tmp_path):
    """Two environments in one process wait for each other; in two processes, on a machine with time for both, a delay of each
    costs half as much per step."""
    doc = sweep_delays(kind, tmp_path, "10s")
    assert low < doc["slope"] < high
    assert doc["share"] > 0.5
