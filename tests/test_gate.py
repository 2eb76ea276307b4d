"""Saved runs against each other, baseline files, and the gate for CI."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from hotlap.core.errors import RecordError, UsageError
from hotlap.core.sample import Sample
from hotlap.experiment import gate
from hotlap.record.baseline import read_baseline, write_baseline
from hotlap.record.header import Verb
from hotlap.record.lines import Recorded
from hotlap.record.machine import Machine
from hotlap.record.run import Run
from tests.test_compare import hotlap


def save_run(path, factor=1.0, seed=0, target="train.py", machine=None, **stages):
    rng = np.random.default_rng(seed)
    known = {"cpu": "one", "cores": 2, "usable_cores": 2.0, "python": "3.11", "versions": {"torch": "2.13"}}
    run = Run.create(Verb.PROFILE, target, {"script": target}, Machine(**known | (machine or {})), path)
    for i in range(30):
        step, act = int(1e8 * factor * rng.normal(1, 0.01)), int(5e7 * rng.normal(1, 0.01))
        exclusive = {"collect": 0, "collect/env_step": step, "collect/act": act} | stages
        inclusive = {"collect": step + act, "collect/env_step": step, "collect/act": act} | stages
        sample = Sample(
            i, step + act + sum(stages.values()), exclusive, inclusive, dict.fromkeys(exclusive, 1), {"env_steps": 1000}
        )
        run.append(Recorded("measured", sample, 1000))
    run.finish()
    return run


def test_gate(tmp_path):
    for name, factor, seed in (("base", 1, 0), ("same", 1, 1), ("slow", 1.6, 2), ("fast", 0.5, 3), ("unsure", 1.08, 4)):
        save_run(tmp_path / name, factor, seed)
    saved = hotlap("gate", "base", "--save", "baseline.json", cwd=tmp_path)
    assert saved.returncode == 0
    for run, code, message in (
        ("same", 0, ("pass", "cannot tell")),
        ("slow", 1, ("FAIL",)),
        ("fast", 0, ("pass",)),
        ("unsure", 0, ("cannot tell",)),
    ):
        flags = ["--baseline", "baseline.json", "--max-slowdown", "5%", "--junit", "j.xml", "--markdown", "m.md"]
        result = hotlap("gate", run, *flags, "--json", cwd=tmp_path)
        assert result.returncode == code, (run, result.stdout, result.stderr)
        assert json.loads(result.stdout)["gate"] in message
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
    assert any("only one run" in warning and "log" in warning for warning in target["warnings"])
    header = json.loads((tmp_path / "a" / "run.json").read_text()) | {"schema": "hotlap.run/9"}
    (tmp_path / "a" / "run.json").write_text(json.dumps(header))
    schema = hotlap("compare", "a", "other-target", cwd=tmp_path)
    assert schema.returncode == 2 and "schema" in schema.stderr


def test_bad_baselines(tmp_path):
    save_run(tmp_path / "a")
    for text, message in (
        ("{", "damaged"),
        ('{"schema": "x"}', "schema"),
        ('{"schema": "hotlap.baseline/1", "runs": [{}]}', "missing"),
    ):
        (tmp_path / "b.json").write_text(text)
        result = hotlap("gate", "a", "--baseline", "b.json", cwd=tmp_path)
        assert result.returncode == 2 and message in result.stderr


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


def test_a_baseline_is_read_back(tmp_path):
    series = gate.series_of(save_run(tmp_path / "a"))
    write_baseline(tmp_path / "b.json", [series, series])
    assert read_baseline(tmp_path / "b.json") == (series, series)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"whole": []}, "costs above 0"),
        ({"whole": [0.0]}, "costs above 0"),
        ({"whole": [1e-3, "x"]}, "must be a number"),
        ({"stages": {"log": [1.0]}}, "as many costs"),
        ({"memory": -1}, "memory"),
        ({"machine": {"gpus": [{"name": 3}]}}, "must be text"),
        ({"created": 10**400}, "must be text"),
        ({"memory": 10**400}, "out of range"),
    ],
)
def test_a_damaged_baseline_is_one_clear_line(tmp_path, change, message):
    write_baseline(tmp_path / "b.json", [gate.series_of(save_run(tmp_path / "a"))])
    document = json.loads((tmp_path / "b.json").read_text())
    document["runs"][0] |= change
    (tmp_path / "b.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match=message):
        read_baseline(tmp_path / "b.json")
