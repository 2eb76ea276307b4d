"""Every verb through the real command, as a user runs it."""

import json
import os
import pstats
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hotlap
from hotlap.core.errors import TargetFailed
from hotlap.record.header import Status
from hotlap.train import checkpoint, dqn
from tests.cli import run_cli

# A run of a second: few environments, short iterations.
SMALL = [
    *("--num-envs", "32", "--iteration-steps", "16", "--learning-starts", "256", "--buffer-size", "5000"),
    *("--batch-size", "32", "--updates-per-step", "1", "--epsilon-steps", "5000"),
]


def command(*arguments):
    return [sys.executable, "-m", "hotlap", *arguments]


def hotlap_process(*arguments, cwd, code=0, **environment):
    """The command in a process of its own."""
    result = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == code, result.stderr + result.stdout
    return result


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """One profile with everything switched on, for several tests to look at."""
    folder = tmp_path_factory.mktemp("profiled")
    flags = ["--iterations", "10", "--modules", "--detailed", "--json"]
    # convolutions, because modules are timed: dense layers of small networks are computed in C
    result = hotlap_process("profile", "snake", *SMALL, "--features", "grid", *flags, cwd=folder)
    return folder, json.loads(result.stdout), result.stderr


def test_profile_prints_one_document(profiled):
    folder, doc, _ = profiled
    assert doc["schema"] == "hotlap.profile/2"
    assert {"collect/act", "collect/env_step", "collect/store", "sample", "update/loss", "update/backward"} <= doc[
        "stages"
    ].keys()
    for row in doc["stages"].values():
        assert row["seconds"] >= 0
        assert 0 <= row["ci95"][0] <= row["share"] <= row["ci95"][1] <= 1
    assert sum(row["share"] for row in doc["stages"].values()) == pytest.approx(1, abs=0.005)
    assert doc["iterations"]["measured"] >= 10
    assert doc["throughput"]["env_steps_per_s"] > doc["throughput"]["updates_per_s"] > 0
    assert doc["overhead"] > 0
    assert doc["overhead_ab"]["pairs"] >= 10
    assert doc["machine"]["cores"] >= 1
    assert (folder / doc["run"] / "run.json").exists()


def test_profile_counts_what_ran(profiled):
    folder, doc, _ = profiled
    run = hotlap.load(folder / doc["run"])
    for sample in run.phase("measured"):
        assert sample.counts["env_steps"] == 32 * 16
        assert sample.counts["updates"] == 16
        assert sample.calls["collect/env_step"] == 16
        assert sample.calls["update/loss"] == sample.calls["sample"] == 16
    assert run.phase("warmup")[0].counts.get("updates", 0) < 16  # learning began inside the warm-up
    assert all(sample.events for sample in run.phase("traced"))
    assert len(run.phase("traced")) == 2


def test_profile_modules_and_functions(profiled):
    folder, doc, stderr = profiled
    modules = {module["name"]: module for module in doc["modules"]}
    assert modules["net.advantage"]["parameters"] == 128 * 3 + 3
    assert modules["net"]["forward"] > 0
    assert modules["net"]["backward"] > 0
    assert modules["target"]["backward"] == 0
    assert len(doc["functions"]) == 50
    totals = [row["total_seconds"] for row in doc["functions"]]
    assert totals == sorted(totals, reverse=True)
    assert any(row["function"] == "update" for row in doc["functions"])
    assert pstats.Stats(str(folder / doc["run"] / "profile.pstats")).total_calls > 1_000
    assert doc["hot_lines"]
    assert "Warning" not in stderr


@pytest.mark.parametrize("form", ["terminal", "md", "html", "json", "trace"])
def test_report_renders_every_format(profiled, form):
    folder, doc, _ = profiled
    result = run_cli("report", doc["run"], "--format", form, cwd=folder)
    if form in ("html", "trace"):
        path = folder / result.stdout.strip()
        assert path.stat().st_size < 20_000_000
        if form == "trace":
            assert any(event["name"] == "backward" for event in json.loads(path.read_text())["traceEvents"])
        else:
            assert path.read_text().startswith("<!doctype html>")
    elif form == "json":
        again = json.loads(result.stdout)
        assert again == doc
    else:
        assert "backward" in result.stdout
        assert "Where the time went" in result.stdout


def test_report_writes_where_it_is_told(profiled, tmp_path):
    folder, doc, _ = profiled
    for form in ("terminal", "md", "html", "json", "trace"):
        out = tmp_path / f"report.{form}"
        run_cli("report", doc["run"], "--format", form, "--output", str(out), cwd=folder)
        assert out.stat().st_size > 1_000
    run_cli("report", doc["run"], "--format", "md", "--output", str(tmp_path / "no" / "where"), cwd=folder, code=2)


def test_profile_of_the_bare_environment(tmp_path):
    arguments = ["profile", "snake", "--env-only", "--no-turbo", "--num-envs", "8", "--iterations", "3", "--json"]
    doc = json.loads(run_cli(*arguments, cwd=tmp_path).stdout)
    assert doc["env_only"] is True
    assert doc["stages"].keys() == {"collect", "collect/env_step", "collect/env_reset", "unattributed"}
    assert doc["config"]["turbo"] is False
    assert doc["throughput"]["updates_per_s"] == 0
    assert doc["counts"]["episodes"] > 0


def test_profile_with_no_learning_to_wait_for_still_ends(tmp_path):
    flags = [*SMALL, "--updates-per-step", "0", "--iterations", "2", "--json"]
    doc = json.loads(run_cli("profile", "snake", *flags, cwd=tmp_path).stdout)
    assert "update" not in doc["stages"]


def test_targets_decide_the_exit_code(tmp_path):
    flags = [*SMALL, "--iterations", "2", "--warmup", "1", "--target", "iteration_time<1h"]
    result = run_cli("profile", "snake", *flags, cwd=tmp_path)
    assert "pass" in result.stdout
    result = run_cli("profile", "snake", *flags, "--target", "memory<1MB", cwd=tmp_path, code=1)
    assert "FAIL" in result.stdout


def test_seconds_instead_of_iterations(tmp_path):
    flags = [*SMALL, "--seconds", "0.5", "--breakdown"]
    result = run_cli("profile", "snake", *flags, cwd=tmp_path)
    assert "backward" in result.stdout


def test_train_evaluates_and_resumes_exactly(tmp_path):
    """Stopping at 8,192 steps and resuming to 16,384 gives the same network as going there at once."""
    flags = [*SMALL, "--evaluation-episodes", "20", "--evaluate-every", "10", "--json"]
    once = json.loads(run_cli("train", "snake", *flags, "--total-steps", "16384", "--out", "once", cwd=tmp_path).stdout)
    run_cli("train", "snake", *flags, "--total-steps", "8192", "--out", "twice", cwd=tmp_path)
    resumed = ["--resume", "twice", "--total-steps", "16384", "--evaluation-episodes", "20", "--evaluate-every", "10", "--json"]
    twice = json.loads(run_cli("train", "snake", *resumed, cwd=tmp_path).stdout)
    assert once["schema"] == "hotlap.train/2"
    assert once["evaluation"] == twice["evaluation"]
    assert once["counts"] == twice["counts"]
    assert once["evaluation"]["episodes"] == 20
    assert once["throughput"]["env_steps_per_s"] > 0
    assert "evaluate" in once["stages"]
    first, second = (checkpoint.load(tmp_path / name) for name in ("once", "twice"))
    assert first.numbers == second.numbers
    for name, array in first.arrays.items():
        assert (array == second.arrays[name]).all(), name
    assert list((tmp_path / "once" / "tensorboard").iterdir())
    assert Path(tmp_path / once["checkpoint"]).exists()


def wait_for_samples(folder, count, process):
    """Until the only run in `folder` has recorded `count` samples."""
    for _ in range(600):
        samples = list(folder.glob(".hotlap/runs/*/samples.jsonl"))
        if samples and samples[0].read_bytes().count(b"\n") >= count:
            return samples[0].parent
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError("no samples came")


LONG = {"train": ["--total-steps", "100000000"], "profile": ["--iterations", "100000"]}


@pytest.mark.parametrize("verb", ["profile", "train"])
def test_kill_nine_leaves_a_run_that_renders_and_resumes(verb, tmp_path):
    with subprocess.Popen(command(verb, "snake", *SMALL, *LONG[verb]), cwd=tmp_path, stderr=subprocess.PIPE) as process:
        run = wait_for_samples(tmp_path, 30, process)
        process.send_signal(signal.SIGKILL)
    result = run_cli("report", str(run), cwd=tmp_path)
    assert "The process was killed" in result.stdout
    assert "Where the time went" in result.stdout
    if verb == "train":
        steps = checkpoint.load(run).numbers["env_steps"]
        flags = ["--resume", "latest", "--total-steps", str(steps + 5_120), "--evaluation-episodes", "5", "--json"]
        doc = json.loads(run_cli("train", "snake", *flags, cwd=tmp_path).stdout)
        assert doc["status"] == "done"
        assert doc["counts"]["env_steps"] == steps + 5_120


@pytest.mark.parametrize("verb", ["profile", "train"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_everything_and_exits_130(verb, number, tmp_path):
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command(verb, "snake", *SMALL, *LONG[verb]), cwd=tmp_path, **pipes) as process:
        run = wait_for_samples(tmp_path, 12, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert b"interrupted" in out
    assert hotlap.load(run).header.status is Status.INTERRUPTED
    if verb == "train":
        assert b"--resume" in err
        assert checkpoint.load(run).numbers["iterations"] == len(hotlap.load(run).lines)


def test_systems(tmp_path):
    assert "snake" in run_cli("systems", cwd=tmp_path).stdout
    doc = json.loads(run_cli("systems", "--json", cwd=tmp_path).stdout)
    snake = doc["systems"]["snake"]
    assert list(snake["algorithms"]) == ["dqn", "ppo"] and list(snake["algorithms"]["dqn"]["presets"]) == [
        "fast",
        "seed",
        "gpu",
    ]
    assert snake["nets"][:2] == ["auto", "mlp"] and snake["kernel"]


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["profile", "--help"], ["train", "snake", "--help"], ["report", "--help"]]
)
def test_help_has_an_example(arguments, tmp_path):
    assert "Example: hotlap " in run_cli(*arguments, cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["trian"],
            "unknown verb 'trian' (did you mean 'train'?); verbs: systems, train, profile, compare, sweep, gate, diagnose, "
            "investigate, report, replay, play",
        ),
        (["train", "snak"], "unknown target 'snak' (did you mean 'snake'?); targets: hearts"),
        (["train"], "name a target first: hotlap train TARGET; targets: hearts"),
        (["profile", "snake", "--bogus", "3"], "Unrecognized options: --bogus, 3 (hotlap profile --help lists the flags)"),
        (
            ["profile", "snake", "--iterations", "ten"],
            "Error parsing --iterations: invalid literal for int() with base 10: 'ten'",
        ),
        (["profile", "snake", "--iterations", "0"], "--iterations must be at least 1"),
        (["profile", "snake", "--target", "speed<3"], "target 'speed<3': unknown metric 'speed'"),
        (["profile", "snake", "--features", "magic"], "snake: unknown features 'magic'; choose one of basic, flood, grid"),
        (["profile", "snake", "--buffer-size", "100"], "a buffer of 100 holds fewer than 3 steps of 256 environments"),
        (["train", "snake", "--num-envs", "0"], "snake: num_envs must be a whole number from 1"),
        (["train", "snake", "--hidden"], "hidden must be one or more layers"),
        (["train", "snake", "--evaluation-episodes", "0"], "evaluation-episodes must be at least 1"),
        (["train", "snake", "--resume", "x", "--preset", "fast"], "leave out --preset and --out"),
        (["train", "snake", "--device", "cuda:99"], "device 'cuda:99' cannot be used:"),
        (["train", "snake", "--resume", "nope"], "no run 'nope'; there are no runs in .hotlap/runs here"),
        (["report", "nope"], "no run 'nope'"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, message, tmp_path):
    result = run_cli(*arguments, cwd=tmp_path, code=2)
    assert result.stderr.strip().startswith("hotlap: ")
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not list(tmp_path.glob(".hotlap/runs/*"))


def test_a_damaged_record_is_one_clear_line(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{")
    result = run_cli("report", str(folder), cwd=tmp_path, code=2)
    assert "run.json is damaged" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_is_resumed_only_as_it_was(tmp_path):
    run_cli("train", "snake", *SMALL, "--total-steps", "2048", "--evaluation-episodes", "5", "--out", "run", cwd=tmp_path)
    for flags in (["--size", "9"], ["--features", "basic"], ["--buffer-size", "6000"], ["--seed", "3"], ["--hidden", "8"]):
        result = run_cli("train", "snake", "--resume", "run", *flags, cwd=tmp_path, code=2)
        assert f"a run cannot be resumed with another {flags[0]}; start a new one" in result.stderr
    (tmp_path / "run" / "checkpoint.safetensors").unlink()  # as if killed before the first one: it begins again
    flags = ["--resume", "run", "--evaluation-episodes", "5", "--json"]
    doc = json.loads(run_cli("train", "snake", *flags, cwd=tmp_path).stdout)
    assert doc["counts"]["env_steps"] == 2_048
    assert doc["windows"]["time"] == sorted(doc["windows"]["time"])


def test_a_target_that_crashes_exits_1_and_keeps_its_record(tmp_path, monkeypatch):
    """A device that vanishes in the middle of training, simulated by an update that raises."""

    def broken(*_):
        raise RuntimeError("CUDA error: out of luck\nmore lines")

    monkeypatch.setattr(dqn, "update", broken)
    flags = [*SMALL, "--total-steps", "10000", "--out", "run"]
    result = run_cli("train", "snake", *flags, cwd=tmp_path, code=1)
    assert "hotlap: snake failed: RuntimeError: CUDA error: out of luck (its record: run)" in result.stderr
    assert hotlap.load(tmp_path / "run").header.status is Status.FAILED
    assert "out of luck" in run_cli("report", "run", cwd=tmp_path).stdout
    with pytest.raises(TargetFailed, match="out of luck"):
        run_cli("train", "snake", "--resume", "run", cwd=tmp_path, HOTLAP_DEBUG="1")


def test_resuming_what_cannot_be_resumed(profiled):
    folder, doc, _ = profiled
    result = run_cli("train", "snake", "--resume", doc["run"], cwd=folder, code=2)
    assert "is a profile run of snake, not a training run of snake" in result.stderr


def test_without_a_compiler_the_reference_still_runs(tmp_path):
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CC": ""}
    flags = ["--env-only", "--num-envs", "4", "--iterations", "2", "--json"]
    result = hotlap_process("profile", "snake", *flags, cwd=tmp_path, **environment)
    assert "no C compiler found (looked for $CC, cc, gcc, clang)" in result.stderr
    assert json.loads(result.stdout)["config"]["turbo"] is False  # the record says what ran


LIGHT = """
import sys
from hotlap.cli import main
sys.argv = ["hotlap", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
heavy = {"torch", "gymnasium"} & sys.modules.keys()
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["systems"],
        ["report", "profile_script"],
        ["report", "investigate", "--format", "html", "--output", "page.html"],
        ["diagnose", "profile_script"],
        ["gate", "profile_system", "--baseline", "baseline.json"],
        ["compare", "profile_system", "profile_system"],
    ],
)
def test_reading_records_imports_neither_torch_nor_gymnasium(arguments, tmp_path):
    records = Path(__file__).with_name("data") / "records_v1"
    placed = [arguments[0], *(str(records / word) if (records / word).exists() else word for word in arguments[1:])]
    subprocess.run([sys.executable, "-c", LIGHT, *placed], cwd=tmp_path, check=True, capture_output=True, timeout=300)
