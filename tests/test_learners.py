"""Training outside of the script's main thread: in processes and in threads, found and measured where it happens."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.causes.evidence import Evidence
from hotlap.core.counts import CPU, ENV_STEPS, GATHERED_STEPS, UPDATES
from hotlap.core.sample import Sample
from hotlap.probe.events import Events
from hotlap.probe.threads import OtherThreads
from hotlap.record.files import STOP
from hotlap.record.learner import LearnerKind, Learners, LearnerSeen, LearnerTimes, write_learner
from hotlap.record.learners import adopt_learners
from hotlap.record.lines import Recorded, append_line
from hotlap.record.observed import Observed
from hotlap.record.run import load
from hotlap.record.summary import profile_of
from hotlap.report.learners import learner_sections
from tests.made_runs import make_run

SCRIPTS = Path(__file__).parent / "learner_scripts"
LEARNING = {"update/loss", "update/backward", "update/optimizer"}
MS = 1_000_000


def profile(folder, script, *arguments, flags=("--iterations", "100000", "--warmup", "0")):
    """The profile of one of the scripts, and what it printed."""
    for file in SCRIPTS.glob("*.py"):
        shutil.copy(file, folder)
    command = [sys.executable, "-m", "hotlap", "profile", script, *flags, "--out", "run", "--json", "--", *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr[-3_000:]
    return json.loads(result.stdout), result.stderr


def shares(doc):
    return {path: stage["share"] for path, stage in doc["stages"].items()}


def test_processes_that_learn(tmp_path):
    doc, printed = profile(tmp_path, "a3c.py", "spawn", 300)  # long enough for stack samples on a fast machine
    assert "steps 12000" in printed
    assert doc["counts"] == {"env_steps": 12000, "updates": 600, "episodes": 480}
    learners = doc["learners"]["each"]
    assert [learner["updates"] for learner in learners.values()] == [300, 300]
    assert {learner["kind"] for learner in learners.values()} == {"process"}
    assert doc["workers"] is None
    seen = {path for path, share in shares(doc).items() if share > 0}  # the loss is a few lines beside the loop of returns
    assert {*LEARNING - {"update/loss"}, "collect/act", "collect/env_step"} <= seen
    assert sum(shares(doc).values()) == pytest.approx(1, abs=0.005)
    assert {line["where"].partition(":")[0] for line in doc["user_lines"]} <= {"worker.py", "game.py"}
    evidence = Evidence(load(tmp_path / "run"))
    assert evidence.nets and "worker.py" in evidence.codes
    assert evidence.updates and evidence.inclusive_share("update") > 0


@pytest.mark.exact
def test_processes_that_learn_are_stopped_with_the_script(tmp_path):
    """It waits for them in a `finally` block too: who learns on has to be ended."""
    flags = ("--iterations", "2", "--warmup", "0")
    doc, printed = profile(tmp_path, "a3c.py", "fork", 10_000_000, flags=flags)
    assert "cleaned up" in printed and "steps" not in printed and "Traceback" not in printed
    assert doc["iterations"]["measured"] >= 1 and doc["stages"].keys() >= LEARNING
    assert not (tmp_path / "run" / STOP).exists()


def test_a_thread_that_learns(tmp_path):
    doc, printed = profile(tmp_path, "threads.py", 60)
    assert doc["counts"]["updates"] == 60
    assert doc["counts"]["env_steps"] == int(re.search(r"steps (\d+)", printed)[1])
    assert doc["learner_thread"] == "learner" and doc["learners"] is None
    assert {*LEARNING, "collect/wait"} <= {path for path, share in shares(doc).items() if share > 0}
    assert {"actor-0", "actor-1"} == doc["other_threads"].keys()
    for of_thread in doc["other_threads"].values():
        assert of_thread["collect/act"] > 0 and of_thread["collect/env_step"] > 0


@pytest.mark.exact
def test_a_thread_that_learns_stops_the_script(tmp_path):
    doc, printed = profile(tmp_path, "threads.py", 10_000_000, flags=("--iterations", "2", "--warmup", "0"))
    assert "cleaned up" in printed and "Traceback" not in printed
    assert doc["counts"]["updates"] > 0 and doc["stages"].keys() >= LEARNING


# -- how processes are joined --


def window(number, stages, phase="measured", length=100, **counts):
    times = {path: share * length * MS // 100 for path, share in stages.items()}
    sample = Sample(number * length * MS, length * MS, times, dict(times), dict.fromkeys(times, 1), counts)
    return Recorded(phase, sample, 1000)


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    for line in lines:
        append_line(path, line)


def make_processes(folder, learners, workers=None, script=(), **seen):
    write_lines(folder / "samples.jsonl", script)
    (folder / "samples.jsonl").touch()
    for name, lines in learners.items():
        write_lines(folder / "learners" / name / "samples.jsonl", lines)
        write_learner(folder / "learners" / name, LearnerSeen(observed=Observed(notes=("seen",)), **seen))
    for name, lines in (workers or {}).items():
        write_lines(folder / "workers" / f"{name}.jsonl", lines)


def lines_of(folder):
    from hotlap.record.lines import read_lines

    return [line.sample for line in read_lines(folder / "samples.jsonl")]


def total(samples, what):
    return sum(sample.counts.get(what, 0) for sample in samples)


def windows(number, stages, **counts):
    """The first is warm-up."""
    return [window(i, stages, "measured" if i else "warmup", **counts) for i in range(number)]


def test_stages_are_the_mean_and_counts_the_sum(tmp_path):
    one = windows(4, {"collect": 80, "update": 20}, updates=2, env_steps=10, cpu_seconds=0.1)
    two = [
        replace(line, sample=replace(line.sample, start=line.sample.start + 50 * MS))
        for line in windows(3, {"update": 60}, updates=1)
    ]
    make_processes(tmp_path, {"1": one, "2": two})
    adopted = adopt_learners(tmp_path, Observed())
    samples = lines_of(tmp_path)
    assert total(samples, UPDATES) == 4 * 2 + 3 and total(samples, ENV_STEPS) == 40
    assert total(samples, CPU) == pytest.approx(0.4)
    assert samples[1].exclusive == {"collect": 40 * MS, "update": 40 * MS}  # both were measured all the time
    assert samples[0].exclusive == {"collect": 53_333_333, "update": 33_333_333}  # the second for half of it
    assert (adopted.learners.shown, adopted.learners.world_size) == ("1", 1)
    assert adopted.observed.notes == ("seen",)
    assert (tmp_path / "script.jsonl").exists()


def test_processes_that_average_their_gradients_make_one_update(tmp_path):
    lines = windows(4, {"update": 100}, updates=3)
    make_processes(tmp_path, {"1": lines, "2": lines}, world_size=2, kind=LearnerKind.RAY)
    learners = adopt_learners(tmp_path, Observed()).learners
    assert total(lines_of(tmp_path), UPDATES) == 12
    assert learners.world_size == 2 and learners.in_ray


LEARNER = windows(3, {"update": 100}, updates=1)
STEPPING = windows(3, {"collect/env_step": 100}, env_steps=7)
GATHERING = windows(3, {"collect/wait": 100}, env_steps=14, gathered_steps=14)


@pytest.mark.parametrize(
    ("learner", "script", "workers", "steps"),
    [
        (
            windows(3, {"update": 50}, updates=1, env_steps=5),
            STEPPING,
            {"7": STEPPING},
            15,
        ),  # who learns steps: others evaluate
        (LEARNER, GATHERING, {"7": STEPPING, "8": STEPPING}, 42),  # a driver of RLlib's, and its runners
        (LEARNER, [], {"6": GATHERING, "7": STEPPING, "8": STEPPING}, 42),  # the same in a trial
        (LEARNER, [], {"7": STEPPING, "8": STEPPING}, 42),
    ],
)
def test_steps_are_counted_once(learner, script, workers, steps, tmp_path):
    make_processes(tmp_path, {"1": learner}, workers, script)
    adopt_learners(tmp_path, Observed())
    assert total(lines_of(tmp_path), ENV_STEPS) == steps
    assert total(lines_of(tmp_path), GATHERED_STEPS) == 0


def test_what_a_learner_did_before_it_learned_is_its_warmup(tmp_path):
    make_processes(tmp_path, {"1": LEARNER}, {"1": [window(0, {"collect/env_step": 100}, "train", env_steps=9)]})
    adopt_learners(tmp_path, Observed())
    assert total(lines_of(tmp_path), ENV_STEPS) == 9
    assert not list((tmp_path / "workers").glob("*"))


def test_a_script_that_learns_too_is_one_of_them(tmp_path):
    make_processes(tmp_path, {"1": LEARNER}, script=windows(3, {"update": 50}, updates=4))
    learners = adopt_learners(tmp_path, Observed()).learners
    assert (learners.shown, [*learners.each]) == ("script", ["script", "1"])
    assert total(lines_of(tmp_path), UPDATES) == 15


def test_without_learners_a_record_stays_as_it_is(tmp_path):
    make_processes(tmp_path, {}, {"7": STEPPING}, LEARNER)
    assert adopt_learners(tmp_path, Observed()) is None
    assert not (tmp_path / "script.jsonl").exists()


def test_the_report_says_where_training_ran(tmp_path):
    run = make_run(tmp_path / "run", {"update": 0.5, "collect/env_step": 0.5}, {"updates": 1})
    each = {
        name: LearnerTimes(LearnerKind.RAY, 5, 10, rate, 10 * rate, 0.4, 0.5, 0.1, 0.9)
        for name, rate in (("7", 2.0), ("8", 1.0))
    }
    run.update(learners=Learners(each, shown="7", script_cpu=0.02))
    notes, table = learner_sections(profile_of(load(run.path)))
    assert notes.lines == [
        "Training ran in 2 processes of Ray: stages are their mean, steps and updates their sum; lines are those of process 7. "
        "The script's own process used 2.0% of a core meanwhile."
    ]
    assert [row[:2] for row in table.rows] == [("8", "1.00"), ("7", "2.00")]


# -- threads --


def test_another_thread_is_measured_if_it_is_the_first_to_learn():
    samples = []
    events = Events()
    events.start(samples.append)
    this = events.thread
    events.thread = 1  # as if another thread had started it
    assert events.learns_elsewhere()
    assert events.thread == this and events.threaded and not events.inside
    events.optimizer_ended(events.begin("update/optimizer"))
    events.thread = 1
    assert not events.learns_elsewhere()  # one has learned: it stays the measured one
    assert events.thread == 1
    events.stop()
    assert sum(sample.counts.get(UPDATES, 0) for sample in samples) == 1


def test_threads_inside_a_step_are_counted_with_it():
    """A pool of threads that makes one environment of many: the outer step counts."""
    threads = OtherThreads()
    tally = threads.tally()
    tally.stepped(7, 1, (), inside=True)
    tally.stepped(7, 1, (0,), inside=True)
    assert threads.take()[1] == {}
    tally.stepped(7, 1, (), inside=False)  # it steps on its own after all
    tally.stepped(7, 1, (), inside=True)
    assert threads.take()[1] == {"env_steps": 4, "episodes": 1, "episode_steps": 2}


def test_other_threads_time_their_outermost_calls():
    clock = iter(range(0, 1000, 10))
    threads = OtherThreads(lambda: next(clock) + 1)
    tally = threads.tally()
    begin = tally.enter()
    assert tally.enter() == 0  # inside
    tally.leave("collect/env_step", begin)
    tally.stepped(7, 2, (0,))
    times, counts = threads.take()
    assert times == {"MainThread": {"collect/env_step": 10}}
    assert counts == {"env_steps": 2, "episodes": 1, "episode_steps": 1}
    assert threads.take() == ({}, {})
    assert tally.forward_path(True) == "collect/act"
    tally.learns = True
    assert tally.forward_path(True) == "update/loss"
