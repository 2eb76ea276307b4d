"""The record: written at once, read strictly, never lost to a kill, a full disk or a damaged file."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import hotlap
from hotlap.core import machine, processes
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.record.header import Evaluation, Process, Setup, Status, Training, Verb
from hotlap.record.lines import Recorded
from hotlap.record.machine import Machine
from hotlap.record.observed import Observed, Usage
from hotlap.record.run import Run, load, write_atomically


def sample(start=0):
    return Sample(
        start=start,
        wall=100,
        exclusive={"collect": 10, "collect/act": 30},
        inclusive={"collect": 40, "collect/act": 30},
        calls={"collect": 1, "collect/act": 2},
        counts={"env_steps": 8},
        gpu={"collect": 5},
        threads={"worker": {"wait": 3}},
        events=[("collect", 1, 2)],
    )


@pytest.fixture
def run(tmp_path):
    setup = Setup(stage_cost=1e-6, layout="one process")
    return Run.create(Verb.PROFILE, "snake", {"num_envs": 2}, Machine(cpu="test"), out=tmp_path / "run", setup=setup)


def test_what_is_written_is_read_back(run):
    lines = [Recorded("warmup", sample(0), rss=1_000), Recorded("measured", sample(5), rss=2_000, gpu_memory=7)]
    for line in lines:
        run.append(line)
    run.finish(observed=Observed(usage=Usage(peak_rss=3), notes=("kept",)))
    again = hotlap.load(run.path)
    assert again.lines == lines
    assert again.header == run.header
    assert again.header.status is again.status is Status.DONE
    assert (again.header.setup.layout, again.header.observed.notes) == ("one process", ("kept",))
    assert [s.start for s in again.phase("measured")] == [5]


def test_a_line_cut_off_by_a_kill_is_dropped(run):
    for i in range(3):
        run.append(Recorded("measured", sample(i), 1))
    path = run.path / "samples.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert [line.sample.start for line in load(run.path).lines] == [0, 1]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace('"wall":100', '"wall":"long"', 1), r"line 1 is damaged: field 'wall'"),
        (lambda text: text.replace("{", "(", 1), r"line 1 is damaged: Expecting value"),
        (lambda text: text.replace("measured", "dreamt", 1), r"unknown phase 'dreamt'"),
        (lambda text: text.replace("[10,40,1]", "[10,40]", 1), r"stage 'collect' must be three whole numbers"),
        (lambda text: "\n" + text, r"line 1 is damaged"),
        (lambda text: "7\n" + text, r"line 1 is damaged: not a JSON object"),
        (lambda text: text.replace('"events":[["collect",1,2]]', '"events":[["collect"]]', 1), r"line 1 is damaged"),
    ],
)
def test_a_damaged_sample_is_a_clear_error(run, damage, message):
    run.append(Recorded("measured", sample(), 1))
    run.append(Recorded("measured", sample(), 1))
    path = run.path / "samples.jsonl"
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=message):
        load(run.path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "run.json is damaged"),
        (
            lambda text: text.replace("hotlap.run/2", "hotlap.run/99"),
            "has schema 'hotlap.run/99'; this version of hotlap reads",
        ),
        (lambda text: text.replace('"target": "snake"', '"target": 3'), "'target' must be text"),
        (lambda text: text.replace('"running"', '"sleeping"'), "'status' must be one of running, done"),
        (lambda text: "[]", "has schema .None"),
    ],
)
def test_a_damaged_header_is_a_clear_error(run, damage, message):
    path = run.path / "run.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=message):
        load(run.path)


def test_missing_runs_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecordError, match="no run 'latest'; there are no runs"):
        load("latest")
    made = Run.create(Verb.TRAIN, "snake", {}, Machine())
    assert load("latest").path == load(made.path.name).path == made.path
    with pytest.raises(RecordError, match="no run 'nope'; the latest run here is"):
        load("nope")
    (made.path / "samples.jsonl").unlink()
    with pytest.raises(RecordError, match="cannot read"):
        load(made.path)
    with pytest.raises(RecordError, match="already holds a run"):
        Run.create(Verb.TRAIN, "snake", {}, Machine(), out=made.path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot create the run folder"):
        Run.create(Verb.TRAIN, "snake", {}, Machine(), out=tmp_path / "file" / "run")


def test_reopening_keeps_the_samples_before_the_checkpoint(run):
    for i in range(5):
        run.append(Recorded("train", sample(i), 1))
    evaluation = Evaluation(1, 1.0, (1.0, 1.0), 1.0, (1.0, 1.0), 9.0)
    run.finish(
        Status.FAILED, error="ValueError: no", training=Training(evaluation=evaluation), observed=Observed(usage=Usage(3))
    )
    again = Run.reopen(run.path, keep=3, machine=Machine(cpu="another"))
    assert again.elapsed == 102
    again.append(Recorded("train", sample(102), 1))
    header = load(run.path).header
    assert [line.sample.start for line in load(run.path).lines] == [0, 1, 2, 102]
    assert header.status is Status.RUNNING
    assert header.error is header.finished is header.training.evaluation is header.observed.usage is None
    assert header.machine.cpu == "another"
    (earlier,) = header.training.resumed
    assert (earlier["samples"], earlier["machine"]["cpu"]) == (3, "test")
    again.finish()
    assert len(Run.reopen(run.path, keep=99).lines) == 4  # a checkpoint may be one sample ahead of a kill


def test_atomic_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(RecordError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from tests.test_record import sample
from hotlap.core.errors import RecordError
from hotlap.record.header import Verb
from hotlap.record.lines import Recorded
from hotlap.record.machine import Machine
from hotlap.record.run import Run
run = Run.create(Verb.PROFILE, "snake", {}, Machine(), out=Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # files may not grow past this: writes fail as on a full disk
try:
    for i in range(100):
        run.append(Recorded("measured", sample(i), 1))
except RecordError as error:
    print(error)
"""


def test_a_full_disk_keeps_what_was_written(tmp_path):
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert "samples before this one are kept" in result.stdout
    lines = load(tmp_path / "run").lines
    assert len(lines) >= 2
    assert [line.sample.start for line in lines] == list(range(len(lines)))


KILLED = """
import sys, time
from pathlib import Path
from tests.test_record import sample
from hotlap.record.header import Verb
from hotlap.record.lines import Recorded
from hotlap.record.machine import Machine
from hotlap.record.run import Run
run = Run.create(Verb.PROFILE, "snake", {}, Machine(), out=Path(sys.argv[1]))
for i in range(10**9):
    run.append(Recorded("measured", sample(i), 1))
    print(i, flush=True)
"""


def test_kill_nine_loses_at_most_the_last_sample(tmp_path):
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        for line in process.stdout:
            if int(line) >= 50:
                break
        process.send_signal(signal.SIGKILL)
        announced = [int(number) for number in process.stdout.read().split()]
    written = load(tmp_path / "run")
    assert [line.sample.start for line in written.lines] == list(range(len(written.lines)))
    assert len(written.lines) >= max(announced, default=50)
    assert written.status is Status.KILLED


def test_a_running_run_is_not_called_killed(run):
    assert load(run.path).is_running
    with pytest.raises(RecordError, match="is still being written by process"):
        Run.reopen(run.path, keep=0)
    began = run.header.process.started

    def written_by(pid, started):
        run.header = replace(run.header, process=Process(pid, started))
        return run.status

    assert written_by(os.getpid(), began) is Status.RUNNING
    assert written_by(os.getpid(), began - 1_000) is Status.KILLED  # the number belongs to another process by now
    assert written_by(2**22 + 1, 0.0) is Status.KILLED
    with subprocess.Popen(["true"]) as child:  # ended, but nobody has asked for its exit code yet
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert written_by(child.pid, psutil.Process(child.pid).create_time()) is Status.KILLED


def test_process_times_are_those_of_psutil():
    assert processes.started(os.getpid()) == pytest.approx(psutil.Process().create_time(), abs=0.02)
    assert processes.started(2**22 + 1) is None


def test_machine_facts_are_plain_json_without_names_or_paths():
    facts = machine.describe()
    text = json.dumps(facts)
    assert facts["cores"] >= facts["usable_cores"] > 0
    assert {"hotlap", "torch", "numpy"} <= facts["versions"].keys()
    assert os.uname().nodename not in text
    assert str(Path.cwd()) not in text
    assert machine.peak_rss() >= 10_000_000
    assert 10_000_000 <= machine.rss() <= 1.05 * machine.peak_rss()


def test_cgroup_limits_of_both_versions(tmp_path):
    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    root = tmp_path / "two"
    (root / "a" / "b").mkdir(parents=True)
    (root / "cpu.max").write_text("max 100000\n")
    (root / "a" / "cpu.max").write_text("150000 100000\n")
    (root / "a" / "b" / "cpu.max").write_text("400000 100000\n")
    (root / "a" / "b" / "memory.max").write_text("2000000000\n")
    assert machine.cgroup_limits(root, own) == {"cpus": 1.5, "memory": 2_000_000_000}
    root = tmp_path / "one"
    (root / "cpu").mkdir(parents=True)
    (root / "memory").mkdir()
    (root / "cpu" / "cpu.cfs_quota_us").write_text("50000\n")
    (root / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (root / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert machine.cgroup_limits(root, tmp_path / "none") == {"cpus": 0.5, "memory": None}
    assert machine.cgroup_limits(tmp_path / "none", tmp_path / "none") == {"cpus": None, "memory": None}


def test_git_commit(tmp_path):
    assert machine.git_commit(tmp_path) is None
    for command in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert len(machine.git_commit(tmp_path)) == 40
    (tmp_path / "file").write_text("1")
    subprocess.run(["git", "add", "file"], cwd=tmp_path, check=True)
    assert machine.git_commit(tmp_path).endswith("+")
