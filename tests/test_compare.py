"""Comparisons: blocks with known differences, the words for targets, and every way through the CLI."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from hotlap.core.errors import RecordError
from hotlap.experiment.rows import compare_blocks
from hotlap.record import codec
from hotlap.record.blocks import BLOCKS, Block, BlockLine, read_blocks
from hotlap.record.comparison import Comparison, Verdict
from hotlap.target import words as targets
from tests.cli import run_cli

SCRIPT = str(Path(__file__).parent.parent / "benchmarks" / "scripts" / "known_cost.py")
QUICK = ["--budget", "20s", "--block", "0.08s", "--blocks", "4", "--warmup", "0", "--no-control"]


def hotlap(*args, cwd):
    return run_cli(*args, cwd=cwd, code=None)


# -- blocks --


def block(env_step, act, steps=100, rss=100, updates=10, **extra):
    return Block(
        wall=(env_step + act) * steps,
        counts={"env_steps": steps, "updates": updates, "episodes": 0, "windows": 1},
        stages={"collect/env_step": env_step * steps, "collect/act": act * steps, **extra},
        rss=rss,
    )


def lines_of(make, variants=("A", "B"), rounds=5, blocks=6):
    rng = np.random.default_rng(0)
    return [
        BlockLine(number, place, variant, make(variant, np.exp(rng.normal(0, 0.01, 2))))
        for number in range(1, rounds + 1)
        for place in range(1, blocks + 1)
        for variant in variants
    ]


def test_a_change_is_found_at_its_stage():
    def make(variant, noise):
        return block((2e-3 if variant == "A" else 1e-3) * noise[0], 1e-3 * noise[1], rss=100 if variant == "A" else 150)

    comparison = compare_blocks(lines_of(make), "A", "B", "env_steps", 0.02)
    assert comparison.verdict == Verdict.FASTER
    assert comparison.ci95[0] < 1.5 < comparison.ci95[1]
    rows = {row.name: row for row in comparison.rows}
    step, act = rows["collect/env_step"], rows["collect/act"]
    assert step.verdict == Verdict.FASTER and step.ratio == pytest.approx(2, rel=0.02)
    assert act.verdict == Verdict.SAME
    assert step.contribution.value == pytest.approx(-1 / 3, abs=0.01)
    assert step.share_of_change + act.share_of_change == pytest.approx(1, abs=0.05)
    assert rows["memory"].verdict == Verdict.LARGER
    assert comparison.projected == pytest.approx(comparison.ratio, rel=0.02)
    assert rows["time per update"].ratio == pytest.approx(comparison.ratio, rel=1e-6)


@pytest.mark.parametrize(
    ("stage", "every", "low", "high"), [("evaluate", 6, 1.1, 2.1), ("evaluate", 1, 1.45, 1.55), ("log", 3, 1.2, 1.9)]
)
def test_rare_and_long_work_counts(stage, every, low, high):
    """Half a step's time goes to evaluations. A median of blocks does not see them if one block in six holds them all."""
    number = iter(range(1_000))

    def make(variant, noise):
        made = block(1e-3 * noise[0], 1e-3 * noise[1])
        long = 0.1 * every if variant == "A" and next(number) % every == every // 2 else 0.0
        return replace(made, wall=made.wall + long, stages=made.stages | {stage: long})

    comparison = compare_blocks(lines_of(make), "A", "B", "env_steps", 0.02)
    assert comparison.verdict == Verdict.FASTER and comparison.ratio == pytest.approx(1.5, rel=0.02)
    assert low < comparison.ci95[0] < 1.51 and 1.49 < comparison.ci95[1] < high


def test_no_difference_and_too_few():
    lines = lines_of(lambda variant, noise: block(1e-3 * noise[0], 1e-3 * noise[1]))
    comparison = compare_blocks(lines, "A", "B", "env_steps", 0.02)
    assert comparison.verdict == Verdict.SAME
    assert 0 < comparison.smallest_effect < 0.05
    one_round = [line for line in lines if line.round == 1]
    too_few = compare_blocks(one_round, "A", "B", "env_steps", 0.02)
    assert too_few.verdict == Verdict.TOO_FEW
    nothing = compare_blocks([], "A", "B", "env_steps", 0.02)
    assert nothing.verdict == Verdict.TOO_FEW and nothing.ratio is None
    for comparison in (too_few, nothing):
        text = json.dumps(codec.to_json(comparison), allow_nan=False)
        assert codec.from_json(Comparison, json.loads(text), "the text") == comparison


def test_a_stage_that_only_one_variant_has():
    def make(variant, noise):
        return block(1e-3 * noise[0], 1e-3 * noise[1], **({"log": 0.0} if variant == "A" else {"log": 0.05}))

    comparison = compare_blocks(lines_of(make), "A", "B", "env_steps", 0.02)
    row = next(row for row in comparison.rows if row.name == "log")
    assert row.ratio is None and row.only == "B"
    assert row.contribution.value == pytest.approx(0.25, abs=0.02)


def test_work_that_is_rare_is_not_overlooked():
    """Every third block of B holds an evaluation as long as four blocks."""

    def make(variant, noise):
        return block(1e-3 * noise[0], 1e-3 * noise[1])

    lines = lines_of(make, blocks=6)
    for place, line in enumerate(lines):
        if line.variant == "B" and line.number % 3 == 0:
            rare = replace(line.block, wall=1.0, stages={**line.block.stages, "evaluate": 0.8})
            lines[place] = replace(line, block=rare)
    comparison = compare_blocks(lines, "A", "B", "env_steps", 0.02)
    row = next(row for row in comparison.rows if row.name == "evaluate")
    assert row.only == "B" and row.contribution.value == pytest.approx(4 / 3, rel=0.05)
    assert comparison.ratio_of_totals < 0.5


def test_warm_up_of_each_process_is_left_out():
    def make(variant, noise):
        return block(1e-3 * noise[0], 1e-3)

    lines = lines_of(make, blocks=8)
    cold = block(3e-3, 1e-3)
    slow = [replace(line, block=cold) if line.variant == "B" and line.number <= 2 else line for line in lines]
    assert compare_blocks(slow, "A", "B", "env_steps", 0.02).verdict == Verdict.SAME


def test_blocks_are_read_strictly(tmp_path):
    old = '{"round":1,"turn":1,"side":"A","block":{"wall":1,"bare":0.5,"counts":{},"stages":{},"workers":{},"rss":1}}\n'
    (tmp_path / BLOCKS).write_text(old + '{"round":1,"tu')
    (line,) = read_blocks(tmp_path)  # the last one was cut off by a kill
    assert (line.number, line.variant, line.block.paused, line.block.measured) == (1, "A", 0.5, 0.5)
    for text, message in (
        ('{"round":1}', "'number' is missing"),
        ('{"round":1,"number":1,"variant":"A","block":{"wall":0}}', "above 0"),
        ('{"round":1,"number":1,"variant":"A","block":{"wall":"1"}}', "must be a number"),
        ('{"round":1,"number":1,"variant":"A","block":{"wall":1e400}}', "out of range"),
        ("[" * 100_000, "nested too deeply"),
    ):
        (tmp_path / BLOCKS).write_text(f"{text}\n")
        with pytest.raises(RecordError, match=f"line 1 is damaged: .*{message}"):
            read_blocks(tmp_path)


# -- targets --


def test_words_for_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    assert [s.name for s in targets.vary("snake", ["turbo=off,on"])] == ["turbo=off", "turbo=on"]
    off, on = targets.vary("snake --num-envs 8", ["turbo=off,on"])
    assert (off.target.config["turbo"], on.target.config["turbo"], on.target.config["num_envs"]) == (False, True, 8)
    assert targets.vary("snake", ["net=64x64,32"])[0].target.config["hidden"] == (64, 64)
    assert len(targets.vary("snake", ["num_envs=1,8", "batch_size=64,128"])) == 4
    one, two = targets.vary("train.py --lr 1", ["num_envs=1,2"])
    assert (one.target.arguments, two.target.arguments) == (("--lr", "1", "--num-envs", "1"), ("--lr", "1", "--num-envs", "2"))
    assert targets.vary("train.py", ["fast=off,on"])[1].target.arguments == ("--fast",)
    variable = targets.vary("train.py", ["OMP_NUM_THREADS=1,2"])[1]
    assert (variable.environment, variable.target.arguments) == ({"OMP_NUM_THREADS": "2"}, ())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["compare", "snake"], "name two targets"),
        (["compare", "snake", "--vary", "turbo"], "must look like"),
        (["compare", "snake", "--vary", "turbo=on"], "at least two"),
        (["compare", "snake", "--vary", "turbos=on,off"], "did you mean 'turbo'"),
        (["compare", "snake", "--vary", "turbo=on,maybe"], "on or off"),
        (["compare", "snake", "--vary", "num_envs=8,8"], "same value twice"),
        (["compare", "nothing.py", "other.py"], "no script"),
        (["compare", "no-such-run", "another"], "no run"),
        (["compare", "snake", "latest"], "not one of each"),
        (["compare", "snake", "--vary", "turbo=on,off", "--budget", "soon"], "not a number with a unit"),
        (["sweep", "snake"], "needs one of"),
        (["sweep", "snake", "--until", "apples=1,2"], "count env_steps"),
        (["gate", "latest"], "gate needs --baseline"),
        (["gate", "--baseline", "b.json"], "gate needs the run"),
        (["gate", "latest", "--baseline", "nothing.json"], "no run"),
    ],
)
def test_wrong_words(args, message, tmp_path):
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


# -- through the command line --


def test_compare_scripts(tmp_path):
    result = hotlap("compare", f"{SCRIPT} 0", f"{SCRIPT} 0.4", *QUICK, "--budget", "5s", "--json", "--out", "c", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert doc["verdict"] in list(Verdict) and doc["ratio"] > 0 and doc["comparisons"][0]["pairs"] > 0
    assert "collect/env_step" in {row["name"] for row in doc["rows"] if row["kind"] == "stage"}
    assert doc["scratch"] in ("overlay", "copy") and doc["containment"]
    text = hotlap("report", "c", cwd=tmp_path).stdout
    assert doc["verdict"] in " ".join(text.split()) and "How it was measured" in text
    assert "| " in hotlap("report", "c", "--format", "md", cwd=tmp_path).stdout
    assert hotlap("report", "c", "--format", "html", cwd=tmp_path).returncode == 0
    assert "Paired ratios" in (tmp_path / "c" / "report.html").read_text()
    assert json.loads(hotlap("report", "c", "--json", cwd=tmp_path).stdout)["ratio"] == doc["ratio"]
    assert str(tmp_path) not in (tmp_path / "c" / "run.json").read_text()
    trace = hotlap("report", "c", "--format", "trace", cwd=tmp_path)
    assert trace.returncode == 2 and "only for" in trace.stderr


@pytest.mark.truth
def test_a_known_difference_is_measured(tmp_path):
    doc = json.loads(hotlap("compare", f"{SCRIPT} 0", f"{SCRIPT} 0.4", *QUICK, "--json", cwd=tmp_path).stdout)
    assert doc["verdict"] == Verdict.SLOWER
    assert 0.6 < doc["ratio"] < 0.85  # 1 / 1.4
    stages = {row["name"]: row for row in doc["rows"] if row["kind"] == "stage"}
    assert max(stages, key=lambda name: stages[name]["contribution"]["value"]) == "collect/env_step"


def test_a_crashing_variant(tmp_path):
    (tmp_path / "bad.py").write_text("raise RuntimeError('out of luck')")
    result = hotlap("compare", SCRIPT, "bad.py", *QUICK, "--json", cwd=tmp_path)
    assert result.returncode == 1
    doc = json.loads(result.stdout)
    assert doc["status"] == "failed" and "out of luck" in doc["error"]
    assert doc["verdict"] == Verdict.TOO_FEW


def test_a_variant_that_crashes_later_leaves_the_others_blocks(tmp_path):
    blocks = tmp_path / "c" / BLOCKS
    check = f"assert not pathlib.Path({str(blocks)!r}).exists() or len(open({str(blocks)!r}).readlines()) < 3, 'tired'"
    source = (
        Path(SCRIPT)
        .read_text()
        .replace("env.step(0)", f"env.step(0)\n    {check}")
        .replace("import sys", "import pathlib, sys")
    )
    (tmp_path / "tired.py").write_text(source)
    result = hotlap("compare", SCRIPT, "tired.py", *QUICK, "--json", "--out", "c", cwd=tmp_path)
    assert result.returncode == 1
    assert "tired" in json.loads(result.stdout)["error"]
    assert any(line.variant == "known_cost.py" for line in read_blocks(tmp_path / "c"))


def test_a_module_and_a_flag_of_its_own(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    source = Path(SCRIPT).read_text().replace("sys.argv[1]", "sys.argv[2]")
    (package / "train.py").write_text(source.replace("import sys", "import sys\nassert sys.argv[1] == '--extra_work'", 1))
    (package / "__init__.py").write_text("")
    args = ["compare", "-m package.train", "--vary", "--extra_work=0,0.5", *QUICK, "--budget", "6s", "--json"]
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    doc = json.loads(result.stdout)
    assert [variant["arguments"] for variant in doc["variants"]] == [["--extra_work", "0"], ["--extra_work", "0.5"]]
    assert doc["comparisons"][0]["pairs"] > 0


def test_a_variant_that_is_killed(tmp_path):
    (tmp_path / "dies.py").write_text("import os; os.kill(os.getpid(), 9)")
    doc = json.loads(hotlap("compare", SCRIPT, "dies.py", *QUICK, "--json", cwd=tmp_path).stdout)
    assert "was killed by SIGKILL" in doc["error"]


def test_nothing_to_compare_by(tmp_path):
    """One variant steps and never learns, the other learns and never steps."""
    (tmp_path / "learns.py").write_text(
        "import torch\nnet = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "while True:\n    net(torch.ones(64, 2)).sum().backward()\n    optimizer.step()\n"
    )
    doc = json.loads(hotlap("compare", SCRIPT, "learns.py", *QUICK, "--budget", "2m", "--json", cwd=tmp_path).stdout)
    assert "nothing to compare by" in doc["error"] and "learns.py made updates" in doc["error"]
    (tmp_path / "short.py").write_text("print('hello')")
    doc = json.loads(hotlap("compare", SCRIPT, "short.py", *QUICK, "--budget", "2m", "--json", cwd=tmp_path).stdout)
    assert "ended before enough was measured" in doc["error"]


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
    blocks = tmp_path / "c" / BLOCKS
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


@pytest.mark.exact
def test_compare_a_system_with_its_networks(tmp_path):
    flags = ["--num-envs", "16", "--iteration-steps", "4", "--learning-starts", "64", "--buffer-size", "2000"]
    target = " ".join(["snake", *flags])
    args = ["compare", target, "--vary", "net=16,256x256x256", "--budget", "15s", "--blocks", "3", "--block", "0.05s", "--json"]
    result = hotlap(*args, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert doc["control"]["ratio"] > 0
    assert [net["name"] for net in doc["nets"]["nets"]] == ["net=16", "net=256x256x256"]
    assert doc["nets"]["readings"]
    assert any(row["name"] == "update/loss" for row in doc["rows"])


def test_networks_of_the_user(capsys):
    import torch

    import hotlap as package
    from hotlap.report.show import show_nets

    def mlp(units):
        return torch.nn.Sequential(torch.nn.Linear(8, units), torch.nn.Tanh(), torch.nn.Linear(units, 2))

    nets = {"small": mlp(8), "medium": mlp(16), "large": mlp(2048)}
    torch.set_num_threads(1)
    comparison = package.compare_nets(nets, batch=512, rounds=5)
    small, medium, large = comparison.nets
    assert (small.parameters, medium.parameters) == (90, 178)
    assert small.operations == 2 * 512 * (8 * 8 + 8 * 2)
    assert all(net.act > 0 and net.forward > 0 and net.both > 0 for net in comparison.nets)
    assert large.operations > 100 * small.operations
    assert large.saved_bytes >= 512 * 2048 * 4
    assert "large" in {reading.net for reading in comparison.readings}
    assert all(p.grad is None for p in nets["small"].parameters())  # timed on copies
    show_nets(comparison)
    assert "Networks, module by module" in capsys.readouterr().out
    with pytest.raises(ValueError, match="input_shape"):
        package.compare_nets({"net": torch.nn.Conv2d(1, 1, 3)})
