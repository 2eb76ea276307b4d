"""Causes that another package adds by entry points: found by the real command, and harmless where they are broken."""

import json
import os
import subprocess
import sys

import pytest

from hotlap import causes
from hotlap.causes import Cause, Evidence, Suspicion
from hotlap.causes.remedy import Context
from hotlap.core import plugins
from tests.causes_scenarios import scenario

PLUGIN = '''\
from hotlap.causes import Cause, Saved, Suspicion


def slow_disk(e):
    """The script waits for its disk."""
    return Suspicion("collect", (f"The disk took {e.exclusive_share('collect/env_step'):.0%}.",), Saved(0.3, 0.2, 0.4))


def failing(e):
    """Nothing: it has a bug."""
    return 1 / 0


SLOW_DISK = Cause("slow-disk", "the disk is slow", "a faster disk", slow_disk, explains=("too-few-envs", "no-such-cause"))
TWO = (Cause("env-render", "taken", "", slow_disk), Cause("fails", "it fails", "", failing))
WRONG = "no cause"
'''
ENTRY_POINTS = """\
[hotlap.causes]
disk = slow_plugin:SLOW_DISK
gone = slow_plugin:MISSING
two = slow_plugin:TWO
wrong = slow_plugin:WRONG
"""


@pytest.fixture
def plugin(tmp_path):
    """A folder for PYTHONPATH with an installed package that adds causes, good ones and bad ones."""
    folder = tmp_path / "site"
    info = folder / "slow_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "slow_plugin.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def _diagnose(path, *flags, site):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path]), "COLUMNS": "200"}
    command = [sys.executable, "-m", "hotlap", "diagnose", str(path), *flags]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_another_package_adds_a_cause_and_its_faults_are_warnings(plugin, tmp_path):
    scenario("few-envs", tmp_path / "r")
    result = _diagnose(tmp_path / "r", "--json", site=plugin)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert [finding["cause"] for finding in document["findings"]] == ["slow-disk"]
    finding = document["findings"][0]
    assert finding["merged"] == ["too-few-envs"] and finding["evidence"] == ["The disk took 30%."]
    assert finding["projected"]["speedup"] == pytest.approx(1 / 0.7) and finding["confirm"] is None
    warnings = "\n".join(document["warnings"])
    assert "plugin gone (slow_plugin:MISSING) cannot be loaded" in warnings
    assert "plugin two: the cause 'env-render' exists already" in warnings
    assert "plugin wrong (slow_plugin:WRONG) is no Cause" in warnings
    assert "the plugin's rule for fails failed: ZeroDivisionError" in warnings


def test_the_report_lists_a_plugins_finding_as_advice(plugin, tmp_path):
    scenario("few-envs", tmp_path / "r")
    result = _diagnose(tmp_path / "r", site=plugin)
    assert result.returncode == 0, result.stderr
    assert "slow-disk" in result.stdout and "advice only" in result.stdout


def test_experiments_of_a_plugin_that_fail_are_a_warning(tmp_path, monkeypatch):
    cause = Cause("odd", "it is odd", "even it", lambda e: None, confirm="try", remedies=lambda context, finding: 1 / 0)
    monkeypatch.setattr(plugins, "load", lambda *_: plugins.Plugins({"odd": cause}))
    context = Context(Evidence(scenario("healthy", tmp_path / "r")), {}, [])
    with pytest.warns(UserWarning, match="experiments for odd failed"):
        assert causes.remedies(context, cause.finding(Suspicion("collect", ("",)))) == []
