"""The lines that hotlap prints as next commands: quoted, and run here as they are printed."""

import os
import shlex
from dataclasses import replace

import pytest

from hotlap.core.errors import UsageError
from hotlap.record.header import Verb
from hotlap.record.hypothesis import Hypothesis, Reason, Verdict
from hotlap.record.intervention import Intervention
from hotlap.record.investigation import InvestigationState, Settings
from hotlap.record.machine import Machine
from hotlap.record.run import Run, load
from hotlap.record.summary import profile_of
from hotlap.report import investigation
from hotlap.report.commands import on_target
from hotlap.report.sections import Notes, Table
from hotlap.report.show import report_of
from tests.causes_scenarios import scenario
from tests.cli import run_cli
from tests.made_runs import PPO, PPO_COUNTS, make_run


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a blank in its name: a script, a profile, and an investigation of it with one experiment."""
    folder = tmp_path / "my project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text("print('training')\n")
    runs = folder / ".hotlap" / "runs"
    run = Run.create(Verb.INVESTIGATE, "train.py", {"script": "train.py"}, Machine(), runs / "an investigation")
    for name in ("profile-1", "experiment-1"):
        make_run(run.path / name, PPO, PPO_COUNTS)
    faster = Intervention("faster", environment={"OMP_NUM_THREADS": "1"})
    tested = Hypothesis(
        1, "env-render", 1, intervention=faster, verdict=Verdict.CONFIRMED, accepted=True, experiment="experiment-1"
    )
    run.header = replace(
        run.header, investigation=InvestigationState("train.py --name 'two words' --lr 1", Settings(60.0), hypotheses=(tested,))
    )
    run.finish()
    make_run(runs / "a profile", PPO, PPO_COUNTS)
    return folder


def printed_commands(run):
    report = investigation.report_of(run)
    tables = [section for section in investigation.sections(report) if isinstance(section, Table)]
    return {row[0]: row[1] for table in tables for row in table.rows if str(row[1]).startswith("hotlap ")}


def test_commands_of_an_investigation_run_as_they_are_printed(project, monkeypatch):
    run = load(".hotlap/runs/an investigation")
    commands = printed_commands(run)
    assert list(commands) == ["again", "experiment 1", "apply", "throughput", "once", "in CI"]
    started = []

    def start(*arguments, **keywords):
        started.extend(a.target for a in arguments if hasattr(a, "target"))
        raise UsageError("enough")

    monkeypatch.setattr("hotlap.investigate.conduct.investigate", start)
    monkeypatch.setattr("hotlap.launch.profile.profile_script", start)
    for name, command in commands.items():
        code = 2 if name in ("again", "apply", "throughput") else 0
        result = run_cli(*shlex.split(command)[1:], cwd=project, code=code)
        assert code == 0 or "enough" in result.stderr, result.stderr
    assert {(target.name, target.arguments) for target in started} == {("train.py", ("--name", "two words", "--lr", "1"))}


@pytest.mark.parametrize(
    ("verdicts", "answer"),
    [
        ([(Verdict.REFUTED, None)], "Every suspected cause was tested and refuted"),
        (
            [(Verdict.REFUTED, None), (Verdict.SKIPPED, Reason.BUDGET_SPENT)],
            "not settled: cause-1 (the budget was spent). More time",
        ),
        (
            [(Verdict.INCONCLUSIVE, Reason.NO_EXPERIMENT)],
            "not settled: cause-0 (advice only: hotlap knows no experiment for it).",
        ),
        ([], "No cause of slowness was found"),
    ],
)
def test_nothing_found_is_said_only_if_all_was_refuted(project, verdicts, answer):
    run = load(".hotlap/runs/an investigation")
    tried = [Hypothesis(i, f"cause-{i}", 1, verdict=verdict, reason=reason) for i, (verdict, reason) in enumerate(verdicts)]
    run.header = replace(run.header, investigation=replace(run.header.investigation, hypotheses=tuple(tried)))
    [said] = investigation.summary(investigation.report_of(run))
    assert answer in said
    assert ("hotlap investigate --resume" in said) == (Reason.BUDGET_SPENT in [reason for _, reason in verdicts])


def test_a_profile_begins_with_its_findings_and_says_how_to_go_on(tmp_path):
    run = scenario("python-loop", tmp_path / "r")
    answer, ranking, evidence, *_ = report_of(profile_of(run), run).sections
    assert isinstance(answer, Notes) and answer.kind == "result" and "interpreted Python loops" in answer.lines[0]
    assert ranking.title == "Findings" and ranking.rows[0][1] == "env-python-loop"
    assert evidence.title == "Evidence" and "took 60.0% of the time" in evidence.rows[0][-1]
    (run.path / "stacks.json").write_text("{")
    damaged, stages, *_ = report_of(profile_of(run), run).sections
    assert "stacks.json is damaged" in damaged.lines[0] and stages.title == "Where the time went"


@pytest.mark.parametrize(
    ("verb", "command", "flags", "line"),
    [
        ("profile", "train.py", ["--seconds", "5"], "hotlap profile train.py --seconds 5"),
        ("profile", "-m my.train --lr 1", ["--seconds", "5"], "hotlap profile -m my.train --seconds 5 -- --lr 1"),
        ("investigate", "'a b.py' --lr 1", [], "hotlap investigate 'a b.py' -- --lr 1"),
        ("investigate", "snake --preset seed", ["--budget", "60s"], "hotlap investigate 'snake --preset seed' --budget 60s"),
        ("profile", "snake --preset seed", ["--target", "x>1"], "hotlap profile snake --preset seed --target 'x>1'"),
        ("investigate", "train.py --token ***", [], None),
    ],
)
def test_a_verb_on_a_target(verb, command, flags, line):
    assert on_target(verb, command, flags) == line


def test_latest_is_the_newest_run_of_the_kind_that_a_verb_needs(project):
    os.utime(project / ".hotlap" / "runs" / "a profile" / "run.json", (1, 1))  # the investigation is newer
    assert load("latest").header.verb is Verb.INVESTIGATE
    assert load("latest", (Verb.PROFILE, Verb.TRAIN)).path.name == "a profile"
    assert "diagnose" in run_cli("diagnose", cwd=project).stdout
    result = run_cli("replay", cwd=project, code=2)
    assert "no train run in .hotlap/runs here; the latest run is an investigation" in result.stderr
