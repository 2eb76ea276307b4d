"""Comparisons: the statistics against scipy and by simulation, blocks with known differences, and every way through the CLI."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import psutil
import pytest
from scipy import stats as scipy_stats

from hotlap.core import stats
from hotlap.core.errors import RecordError, UsageError
from hotlap.core.sample import Sample
from hotlap.experiment import compare, gate, growth, sweep
from hotlap.experiment import interleave as race
from hotlap.record import run as record
from hotlap.target import words as targets

SCRIPT = str(Path(__file__).parent.parent / "benchmarks" / "scripts" / "known_cost.py")
QUICK = ["--budget", "20s", "--block", "0.08s", "--turns", "4", "--warmup", "0", "--no-control"]


def hotlap(*args, cwd, **options):
    command = [sys.executable, "-m", "hotlap", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=240, check=False, **options)


# -- statistics --


def test_the_interval_is_students_over_rounds():
    rng = np.random.default_rng(0)
    rounds = [rng.normal(center, 1e-4, 9) for center in rng.normal(0.1, 0.05, 7)]
    effect = stats.rounds_effect(rounds)
    medians = [np.median(r) for r in rounds]
    expected = scipy_stats.ttest_1samp(medians, 0).confidence_interval(0.95)
    assert effect.value == pytest.approx(np.mean(medians))
    assert (effect.low, effect.high) == pytest.approx((expected.low, expected.high))
    assert (effect.rounds, effect.pairs) == (7, 63)


def test_rounds_that_agree_by_chance_do_not_narrow_the_interval():
    noisy = [-0.1, -0.05, 0.0, 0.05, 0.1]
    assert stats.rounds_effect([noisy] * 4).width > 0.02
    assert stats.rounds_effect([noisy]).width > 0.07  # one process each: they may differ for no reason
    assert stats.rounds_effect([[np.log(13)] * 4]).low > np.log(10)  # but not by so much


@pytest.mark.parametrize("kind", ["normal", "skewed", "bimodal", "drifting"])
def test_coverage(kind):
    rng = np.random.default_rng(1)
    hits, trials = 0, 400
    for _ in range(trials):
        rounds = []
        for _ in range(6):
            noise = rng.normal(0, 0.03, 6)
            if kind == "skewed":
                noise = rng.exponential(0.03, 6) - rng.exponential(0.03, 6)
            elif kind == "bimodal":
                noise = noise / 3 + 0.06 * (rng.random(6) < 0.3) - 0.06 * (rng.random(6) < 0.3)
            elif kind == "drifting":
                noise += np.linspace(-0.03, 0.03, 6) * rng.choice([-1, 1])
            rounds.append(0.2 + rng.normal(0, 0.02) + noise)
        effect = stats.rounds_effect(rounds)
        hits += effect.low <= 0.2 <= effect.high
    assert hits / trials >= 0.92


def test_series_of_dependent_values():
    rng = np.random.default_rng(0)
    walk = np.repeat(rng.normal(0, 1, 40), 5)  # neighbours that are equal: fewer values than it seems
    assert stats.series_error(walk) > 1.3 * stats.series_error(rng.permutation(walk))
    assert stats.series_error([1.0]) == 0


def test_power_law_against_scipy():
    rng = np.random.default_rng(0)
    work = np.geomspace(1, 1000, 12)
    cost = work**1.4 * np.exp(rng.normal(0, 0.1, 12))
    slope, (low, high) = stats.power_law(work, cost)
    expected = scipy_stats.linregress(np.log(work), np.log(cost))
    assert slope == pytest.approx(expected.slope)
    assert high - slope == pytest.approx(expected.stderr * scipy_stats.t.ppf(0.975, 10))
    assert low < 1.4 < high
    with pytest.raises(ValueError, match="three amounts"):
        stats.power_law([1, 1, 1], [1, 2, 3])


def test_amdahl():
    assert stats.amdahl(0.5, 2) == pytest.approx(4 / 3)
    assert stats.amdahl(0.0, 100) == 1
    assert stats.amdahl(0.8, float("inf")) == pytest.approx(5)
    assert stats.amdahl(1.0, float("inf")) == float("inf")


# -- blocks --


def block(env_step, act, steps=100, rss=100, updates=10, **extra):
    return {
        "wall": (env_step + act) * steps,
        "bare": 0.0,
        "counts": {"env_steps": steps, "updates": updates, "episodes": 0, "windows": 1},
        "stages": {"collect/env_step": env_step * steps, "collect/act": act * steps, **extra},
        "workers": {},
        "rss": rss,
    }


def turns_of(make, sides=("A", "B"), rounds=5, turns=6):
    rng = np.random.default_rng(0)
    return [
        race.Turn(r, t, side, make(side, np.exp(rng.normal(0, 0.01, 2))))
        for r in range(1, rounds + 1)
        for t in range(1, turns + 1)
        for side in sides
    ]


def test_a_change_is_found_at_its_stage():
    def make(side, noise):
        return block((2e-3 if side == "A" else 1e-3) * noise[0], 1e-3 * noise[1], rss=100 if side == "A" else 150)

    found = compare.compare_blocks(turns_of(make), "A", "B", "env_steps", 0.02)
    assert found["verdict"] == compare.FASTER
    assert found["ci95"][0] < 1.5 < found["ci95"][1]
    rows = {row["name"]: row for row in found["rows"]}
    step, act = rows["collect/env_step"], rows["collect/act"]
    assert step["verdict"] == compare.FASTER and step["ratio"] == pytest.approx(2, rel=0.02)
    assert act["verdict"] == compare.SAME
    assert step["contribution"]["value"] == pytest.approx(-1 / 3, abs=0.01)
    assert step["share_of_change"] + act["share_of_change"] == pytest.approx(1, abs=0.05)
    assert rows["memory"]["verdict"] == compare.LARGER
    assert found["projected"] == pytest.approx(found["ratio"], rel=0.02)
    assert rows["time per update"]["ratio"] == pytest.approx(found["ratio"], rel=1e-6)


def test_no_difference_and_too_few():
    turns = turns_of(lambda side, noise: block(1e-3 * noise[0], 1e-3 * noise[1]))
    found = compare.compare_blocks(turns, "A", "B", "env_steps", 0.02)
    assert found["verdict"] == compare.SAME
    assert 0 < found["smallest_effect"] < 0.05
    one_round = [turn for turn in turns if turn.round == 1]
    found = compare.compare_blocks(one_round, "A", "B", "env_steps", 0.02)
    assert found["verdict"] == compare.TOO_FEW
    nothing = compare.compare_blocks([], "A", "B", "env_steps", 0.02)
    assert nothing["verdict"] == compare.TOO_FEW and nothing["ratio"] is None
    for doc in (found, nothing):
        json.dumps(doc, allow_nan=False)


def test_a_stage_that_only_one_side_has():
    def make(side, noise):
        return block(1e-3 * noise[0], 1e-3 * noise[1], **({"log": 0.0} if side == "A" else {"log": 0.05}))

    found = compare.compare_blocks(turns_of(make), "A", "B", "env_steps", 0.02)
    row = next(row for row in found["rows"] if row["name"] == "log")
    assert row["ratio"] is None and row["only"] == "B"
    assert row["contribution"]["value"] == pytest.approx(0.25, abs=0.02)


def test_work_that_is_rare_is_not_overlooked():
    """Every third block of B holds an evaluation as long as four blocks."""

    def make(side, noise):
        return block(1e-3 * noise[0], 1e-3 * noise[1])

    turns = turns_of(make, turns=6)
    for number, turn in enumerate(turns):
        if turn.side == "B" and turn.turn % 3 == 0:
            turns[number] = race.Turn(
                turn.round, turn.turn, "B", {**turn.block, "wall": 1.0, "stages": {**turn.block["stages"], "evaluate": 0.8}}
            )
    found = compare.compare_blocks(turns, "A", "B", "env_steps", 0.02)
    row = next(row for row in found["rows"] if row["name"] == "evaluate")
    assert row["only"] == "B" and row["contribution"]["value"] == pytest.approx(4 / 3, rel=0.05)
    assert found["ratio_of_totals"] < 0.5


def test_warm_up_of_each_process_is_left_out():
    def make(side, noise):
        return block(1e-3 * noise[0], 1e-3)

    turns = turns_of(make, turns=8)
    slow = [race.Turn(t.round, t.turn, t.side, block(3e-3, 1e-3)) if t.side == "B" and t.turn <= 2 else t for t in turns]
    assert compare.compare_blocks(slow, "A", "B", "env_steps", 0.02)["verdict"] == compare.SAME


def test_damaged_blocks(tmp_path):
    (tmp_path / race.BLOCKS).write_text(
        '{"round":1,"turn":1,"side":"A","block":{"wall":1,"counts":{},"stages":{}}}\n{"round":1,"tu'
    )
    assert len(race.read_turns(tmp_path)) == 1  # cut off by a kill
    (tmp_path / race.BLOCKS).write_text('{"round":1}\n')
    with pytest.raises(RecordError, match="line 1 is damaged"):
        race.read_turns(tmp_path)


# -- sweeps and growth --


def point(value, rate, **work):
    return {"name": f"n={value}", "values": {"n": str(value)}, "throughput": rate, **work}


def test_what_a_curve_says():
    found = sweep.scaling([point(1, 10), point(8, 78), point(64, 200), point(512, 210), point(4096, 100)], "n")
    assert [s["reading"] for s in found["segments"]] == [sweep.LATENCY, sweep.PARTLY, sweep.LINEAR, sweep.CONTENDED]
    assert found["knee"]["value"] == 64
    assert sweep.scaling([point("a", 1), point("b", 2)], "n") is None


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
    found = growth.growth(samples)
    rows = {row["work"]: row for row in found["rows"]}
    assert rows["episodes"]["superlinear"] and not rows["env_steps"]["superlinear"]
    assert rows["env_steps"]["exponent"] == pytest.approx(1, abs=0.02)
    assert any("Episodes got longer" in why for why in found["why"])
    _, last = growth.reached(samples, "episodes", [200, 2000])
    assert last["seconds"] > 1.5 * last["expected_seconds"]
    assert last["seconds"] == pytest.approx(last["expected_by_steps"], rel=0.1)


def test_a_step_that_costs_more_and_more_is_a_slowdown():
    found = growth.growth(run_of([10] * 200, seconds=lambda i: 0.01 * (i + 1)))
    rows = {row["work"]: row for row in found["rows"]}
    assert rows["env_steps"]["superlinear"]
    assert any("sample" in why and "costs" in why for why in found["why"])


def test_few_counts_are_no_growth():
    samples = run_of([10] * 7)
    for sample, episodes in zip(samples, [0, 0, 1, 0, 0, 0, 8], strict=True):
        sample.counts["episodes"] = episodes
    assert "episodes" not in {row["work"] for row in growth.growth(samples)["rows"]}


def test_points_that_learn_differently_are_said_so():
    def made(n, rate, updates):
        work = {"updates_per_env_step": updates, "env_steps_per_episode": None}
        return point(
            n, rate, work=work, per_iteration={"env_steps": 100 * n}, stages={"collect/act": 1 / rate, "update/loss": updates}
        )

    found = sweep.scaling([made(1, 10, 1.0), made(10, 100, 0.1)], "n")
    assert found["segments"][0]["reading"] == sweep.LEARNING
    assert found["segments"][0]["collecting"] == sweep.LATENCY
    assert "1 to 0.1 updates per env step" in found["says"][0]


def test_learning_that_begins_is_said():
    found = growth.growth(run_of([10] * 200, seconds=lambda i: 0.01 if i < 40 else 0.2, updates=lambda i: 0 if i < 40 else 10))
    assert any("Learning began" in why for why in found["why"])


# -- targets --


def test_words_for_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    assert [s.name for s in targets.vary("snake", ["turbo=off,on"])] == ["turbo=off", "turbo=on"]
    off, on = targets.vary("snake --num-envs 8", ["turbo=off,on"])
    assert (off.config["turbo"], on.config["turbo"], on.config["num_envs"]) == (False, True, 8)
    assert targets.vary("snake", ["net=64x64,32"])[0].config["hidden"] == (64, 64)
    assert len(targets.vary("snake", ["num_envs=1,8", "batch_size=64,128"])) == 4
    one, two = targets.vary("train.py --lr 1", ["num_envs=1,2"])
    assert (one.arguments, two.arguments) == (("--lr", "1", "--num-envs", "1"), ("--lr", "1", "--num-envs", "2"))
    assert targets.vary("train.py", ["fast=off,on"])[1].arguments == ("--fast",)
    variable = targets.vary("train.py", ["OMP_NUM_THREADS=1,2"])[1]
    assert (variable.environment, variable.arguments) == ({"OMP_NUM_THREADS": "2"}, ())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["compare", "snake"], "name two things"),
        (["compare", "snake", "--vary", "turbo"], "must look like"),
        (["compare", "snake", "--vary", "turbo=on"], "at least two"),
        (["compare", "snake", "--vary", "turbos=on,off"], "did you mean 'turbo'"),
        (["compare", "snake", "--vary", "turbo=on,maybe"], "on or off"),
        (["compare", "snake", "--vary", "num_envs=8,8"], "same value twice"),
        (["compare", "nothing.py", "other.py"], "no script"),
        (["compare", "no-such-run", "another"], "no run"),
        (["compare", "snake", "latest"], "not one of each"),
        (["compare", "snake", "--vary", "turbo=on,off", "--budget", "soon"], "no number with a unit"),
        (["sweep", "snake"], "needs one of"),
        (["sweep", "snake", "--until", "apples=1,2"], "count env_steps"),
        (["gate", "latest"], "gate needs --baseline"),
        (["gate", "--baseline", "b.json"], "gate needs the run"),
        (["gate", "latest", "--baseline", "nothing.json"], "no run"),
    ],
)
def test_wrong_words(args, said, tmp_path):
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


# -- through the command line --


def test_compare_scripts(tmp_path):
    a, b = f"{SCRIPT} 0", f"{SCRIPT} 0.4"
    result = hotlap("compare", a, b, *QUICK, "--json", "--out", "c", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert doc["verdict"] == compare.SLOWER
    assert 0.6 < doc["ratio"] < 0.85  # 1 / 1.4 on a quiet machine
    stages = {row["name"]: row for row in doc["rows"] if row["kind"] == "stage"}
    assert max(stages, key=lambda name: stages[name]["contribution"]["value"]) == "collect/env_step"
    assert doc["comparisons"][0]["rounds"] >= 2
    text = hotlap("report", "c", cwd=tmp_path).stdout
    assert "slower" in text and "How it was measured" in text
    assert "| " in hotlap("report", "c", "--format", "md", cwd=tmp_path).stdout
    assert hotlap("report", "c", "--format", "html", cwd=tmp_path).returncode == 0
    assert "Paired ratios" in (tmp_path / "c" / "report.html").read_text()
    assert json.loads(hotlap("report", "c", "--json", cwd=tmp_path).stdout)["ratio"] == doc["ratio"]
    assert str(tmp_path) not in (tmp_path / "c" / "run.json").read_text()
    assert not list((tmp_path / "c").glob("round-*"))
    trace = hotlap("report", "c", "--format", "trace", cwd=tmp_path)
    assert trace.returncode == 2 and "only for" in trace.stderr


def test_a_crashing_side(tmp_path):
    (tmp_path / "bad.py").write_text("raise RuntimeError('out of luck')")
    result = hotlap("compare", SCRIPT, "bad.py", *QUICK, "--json", cwd=tmp_path)
    assert result.returncode == 1
    doc = json.loads(result.stdout)
    assert doc["status"] == "failed" and "out of luck" in doc["error"]
    assert doc["verdict"] == compare.TOO_FEW


def test_a_side_that_crashes_later_leaves_the_others_blocks(tmp_path):
    source = (
        Path(SCRIPT)
        .read_text()
        .replace(
            "env.step(0)",
            "env.step(0); sys.modules.setdefault('n', [0])[0] += 1\n    assert sys.modules['n'][0] < 250, 'tired'",
        )
    )
    (tmp_path / "tired.py").write_text(source)
    result = hotlap("compare", SCRIPT, "tired.py", *QUICK, "--json", "--out", "c", cwd=tmp_path)
    assert result.returncode == 1
    assert "tired" in json.loads(result.stdout)["error"]
    assert any(turn.side == "known_cost.py" for turn in race.read_turns(tmp_path / "c"))


def test_a_module_and_a_flag_of_its_own(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "train.py").write_text(Path(SCRIPT).read_text().replace("sys.argv[1]", "sys.argv[2]"))
    (package / "__init__.py").write_text("")
    args = ["compare", "-m package.train", "--vary", "--extra_work=0,0.5", *QUICK, "--budget", "5s", "--json"]
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["verdict"] == compare.SLOWER


def test_a_side_that_is_killed(tmp_path):
    (tmp_path / "dies.py").write_text("import os; os.kill(os.getpid(), 9)")
    doc = json.loads(hotlap("compare", SCRIPT, "dies.py", *QUICK, "--json", cwd=tmp_path).stdout)
    assert "was killed by SIGKILL" in doc["error"]


def test_nothing_to_compare_by(tmp_path):
    """One side steps and never learns, the other learns and never steps."""
    (tmp_path / "learns.py").write_text(
        "import torch\nnet = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "while True:\n    net(torch.ones(64, 2)).sum().backward()\n    optimizer.step()\n"
    )
    doc = json.loads(hotlap("compare", SCRIPT, "learns.py", *QUICK, "--json", cwd=tmp_path).stdout)
    assert "nothing to compare by" in doc["error"] and "learns.py made updates" in doc["error"]
    (tmp_path / "short.py").write_text("print('hello')")
    doc = json.loads(hotlap("compare", SCRIPT, "short.py", *QUICK, "--json", cwd=tmp_path).stdout)
    assert "ended before enough was measured" in doc["error"]


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
        "--turns",
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


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    command = [
        sys.executable,
        "-m",
        "hotlap",
        "compare",
        SCRIPT,
        f"{SCRIPT} 0.5",
        *QUICK,
        "--budget",
        "5m",
        "--precision",
        "0.01%",
        "--json",
        "--out",
        "c",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    blocks = tmp_path / "c" / race.BLOCKS
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (blocks.exists() and len(blocks.read_text().splitlines()) > 18):
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    doc = json.loads(out)
    assert doc["status"] == "interrupted" and doc["comparisons"][0]["pairs"] >= 8
    psutil.wait_procs(children, timeout=5)
    assert not any(child.is_running() for child in children)


def test_compare_a_system_with_its_networks(tmp_path):
    flags = ["--num-envs", "16", "--iteration-steps", "4", "--learning-starts", "64", "--buffer-size", "2000"]
    target = " ".join(["snake", *flags])
    args = ["compare", target, "--vary", "net=16,256x256x256", "--budget", "1s", "--turns", "3", "--block", "0.05s", "--json"]
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert doc["control"]["ratio"] > 0
    assert [net["name"] for net in doc["nets"]["nets"]] == ["net=16", "net=256x256x256"]
    assert doc["nets"]["says"]
    assert any(row["name"] == "update/loss" for row in doc["rows"])


def test_networks_of_ones_own(capsys):
    import torch

    import hotlap as package

    def mlp(units):
        return torch.nn.Sequential(torch.nn.Linear(8, units), torch.nn.Tanh(), torch.nn.Linear(units, 2))

    nets = {"small": mlp(8), "medium": mlp(16), "large": mlp(2048)}
    torch.set_num_threads(1)
    found = package.compare_nets(nets, batch=512, rounds=5)
    small, medium, large = found.nets
    assert (small.parameters, medium.parameters) == (90, 178)
    assert small.operations == 2 * 512 * (8 * 8 + 8 * 2)
    assert large.both > small.both and all(net.act > 0 and net.backward > 0 for net in found.nets)
    assert large.saved_bytes >= 512 * 2048 * 4
    assert any("large" in said for said in found.says)
    assert all(p.grad is None for p in nets["small"].parameters())  # timed on copies
    found.show()
    assert "Networks, module by module" in capsys.readouterr().out
    with pytest.raises(ValueError, match="input_shape"):
        package.compare_nets({"net": torch.nn.Conv2d(1, 1, 3)})


def test_sweep_a_system(tmp_path):
    args = ["sweep", "snake", "--env-only", "--vary", "num_envs=1,16,256", "--budget", "1s", "--turns", "3", "--block", "0.1s"]
    result = hotlap(*args, "--json", "--out", "s", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert [p["values"]["num_envs"] for p in doc["points"]] == ["1", "16", "256"]
    assert doc["best"] == "num_envs=256" and doc["scaling"]["segments"][0]["reading"] in (sweep.LATENCY, sweep.PARTLY)
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
    assert "Time until so many episodes" in hotlap("report", "u", cwd=tmp_path).stdout


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


@pytest.mark.parametrize(
    ("kind", "workers", "low", "high"), [("SyncVectorEnv", False, 0.7, 1.4), ("AsyncVectorEnv", True, 0.2, 1.4)]
)
def test_delays_tell_overlap(kind, workers, low, high, tmp_path):
    """Two environments in one process wait for each other; in two processes, on a machine with time for both, a delay of each
    costs half as much per step. Here other tests may run beside them, so only its place is sure."""
    (tmp_path / "train.py").write_text(DELAYED.format(kind=kind, folder=str(tmp_path)))
    args = ["sweep", "train.py", "--delay", "env_step", "--budget", "1s", "--turns", "4", "--block", "0.2s", "--warmup", "0"]
    result = hotlap(*args, "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert low < doc["slope"] < high
    assert doc["in_workers"] == workers
    assert doc["share"] > 0.5


# -- saved runs and the gate --


def save_run(path, factor=1.0, seed=0, target="train.py", machine=None, **stages):
    rng = np.random.default_rng(seed)
    facts = {"cpu": "one", "cores": 2, "usable_cores": 2, "gpus": [], "python": "3.11", "versions": {"torch": "2.13"}}
    run = record.Run.create("profile", target, {"script": target}, facts | (machine or {}), path)
    for i in range(30):
        step, act = int(1e8 * factor * rng.normal(1, 0.01)), int(5e7 * rng.normal(1, 0.01))
        own = {"collect": 0, "collect/env_step": step, "collect/act": act} | stages
        total = {"collect": step + act, "collect/env_step": step, "collect/act": act} | stages
        sample = Sample(i, step + act + sum(stages.values()), own, total, dict.fromkeys(own, 1), {"env_steps": 1000})
        run.append(record.Recorded("measured", sample, 1000))
    run.finish("done")
    return run


def test_gate(tmp_path):
    for name, factor, seed in (("base", 1, 0), ("same", 1, 1), ("slow", 1.6, 2), ("fast", 0.5, 3), ("unsure", 1.08, 4)):
        save_run(tmp_path / name, factor, seed)
    saved = hotlap("gate", "base", "--save", "baseline.json", cwd=tmp_path)
    assert saved.returncode == 0
    for run, code, said in (
        ("same", 0, ("pass", "cannot tell")),
        ("slow", 1, ("FAIL",)),
        ("fast", 0, ("pass",)),
        ("unsure", 0, ("cannot tell",)),
    ):
        flags = ["--baseline", "baseline.json", "--max-slowdown", "5%", "--junit", "j.xml", "--markdown", "m.md"]
        result = hotlap("gate", run, *flags, "--json", cwd=tmp_path)
        assert result.returncode == code, (run, result.stdout, result.stderr)
        assert json.loads(result.stdout)["gate"] in said
        suite = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert suite.get("failures") == str(code)
        assert "collect/env_step" in {case.get("name") for case in suite}
        assert (tmp_path / "m.md").read_text().startswith("# gate train.py")
    several = hotlap("gate", "same", "base", "--baseline", "baseline.json", "--json", cwd=tmp_path)
    assert (
        json.loads(several.stdout)["smallest_effect"]
        < json.loads(hotlap("gate", "same", "--baseline", "base", "--json", cwd=tmp_path).stdout)["smallest_effect"]
    )


def test_saved_runs_that_do_not_fit(tmp_path):
    save_run(tmp_path / "a")
    save_run(tmp_path / "other-machine", machine={"cpu": "two"})
    save_run(tmp_path / "other-version", machine={"versions": {"torch": "2.11"}})
    save_run(tmp_path / "other-target", target="else.py", log=1000)
    refused = hotlap("compare", "a", "other-machine", cwd=tmp_path)
    assert refused.returncode == 2 and "different machines" in refused.stderr
    anyway = json.loads(hotlap("compare", "a", "other-machine", "--anyway", "--json", cwd=tmp_path).stdout)
    assert any("different machines" in warning for warning in anyway["warnings"])
    version = json.loads(hotlap("compare", "a", "other-version", "--json", cwd=tmp_path).stdout)
    assert any("torch 2.13 and 2.11" in warning for warning in version["warnings"])
    target = json.loads(hotlap("compare", "a", "other-target", "--json", cwd=tmp_path).stdout)
    assert any("different targets" in warning for warning in target["warnings"])
    assert any("only one side" in warning and "log" in warning for warning in target["warnings"])
    header = json.loads((tmp_path / "a" / "run.json").read_text()) | {"schema": "hotlap.run/9"}
    (tmp_path / "a" / "run.json").write_text(json.dumps(header))
    schema = hotlap("compare", "a", "other-target", cwd=tmp_path)
    assert schema.returncode == 2 and "schema" in schema.stderr


def test_bad_baselines(tmp_path):
    save_run(tmp_path / "a")
    for text, said in (
        ("{", "damaged"),
        ('{"schema": "x"}', "schema"),
        ('{"schema": "hotlap.baseline/1", "runs": [{}]}', "lacks"),
    ):
        (tmp_path / "b.json").write_text(text)
        result = hotlap("gate", "a", "--baseline", "b.json", cwd=tmp_path)
        assert result.returncode == 2 and said in result.stderr


def test_between_runs_noise_is_part_of_the_doubt():
    steady = [list(np.full(20, 1.0)), list(np.full(20, 1.0))]
    close = gate.effect(steady, [[1.01] * 20])
    assert close.low < 0 < close.high  # one percent between two processes is nothing
    far = gate.effect(steady, [[1.3] * 20] * 2)
    assert far.high < 0


def test_a_run_that_is_too_short(tmp_path):
    run = save_run(tmp_path / "a")
    run.lines = run.lines[:3]
    with pytest.raises(UsageError, match="3 windows"):
        gate.series_of(run)
