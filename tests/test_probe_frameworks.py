"""What hotlap knows about frameworks: the registry, how step results are read, and plugins that reach a process by path."""

import importlib
import json
import os
import subprocess
import sys
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch

from hotlap.core import stages
from hotlap.probe import notes
from hotlap.probe.events import Events
from hotlap.probe.framework import EnvironmentClass, Framework
from hotlap.probe.frameworks import BUILT_IN, frameworks, pettingzoo, plugins, torchrl
from hotlap.probe.hooks import table
from hotlap.probe.results import TUPLES, as_floats
from hotlap.probe.transitions import transition_of

SOURCE = str(Path(__file__).parents[1] / "src")
BY_PACKAGE = {framework.package: framework for framework in BUILT_IN}


def test_every_framework_has_its_file():
    assert set(BY_PACKAGE) == {
        *("gymnasium", "gym", "stable-baselines3", "torchrl", "ray", "tianshou", "skrl", "pettingzoo", "pufferlib")
    }
    for framework in BUILT_IN:
        for path in (*framework.regions.values(), *framework.phases.values()):
            assert set(path.split("/")) <= stages.STAGES.keys(), path
        for module, patch in framework.patches():
            assert module and callable(patch)
    modules = table.patches()
    assert {"torch", "gymnasium", "time", "logging", "pickle", "numpy", "multiprocessing.connection"} <= modules.keys()
    assert len(modules["torch"]) == 2  # what it computes, and what it saves


@pytest.mark.parametrize(
    "package", ["gymnasium", "stable-baselines3", "pettingzoo", "torchrl", "tianshou", "skrl", "pufferlib"]
)
def test_every_name_is_there_in_the_installed_version(package):
    framework = BY_PACKAGE[package]
    pytest.importorskip(package.replace("-", "_"))
    assert framework.is_known
    names = [*framework.regions, *framework.phases, *framework.waits, *(kind.name for kind in framework.environments)]
    for name in names:
        module, _, target = name.partition(":")
        assert callable(reduce(getattr, target.rstrip("!").split("."), importlib.import_module(module))), name
    for layout in framework.layouts:
        module = importlib.import_module(layout.module)
        assert isinstance(getattr(module, layout.workers), type) and isinstance(getattr(module, layout.one_process), type)


NO, SOME = np.zeros(4, bool), np.array([False, True, False, True])


class Agents:
    agents = ["a"]
    rewards = {"a": 1.0, "b": 0.5}


class TensorDict:
    def __init__(self, **tensors):
        self.tensors, self.batch_size = tensors, (4,)

    def get(self, key, default):
        return self.tensors.get(key[1], default)


COLUMN = torch.tensor([[False], [True], [False], [False]])
PARALLEL = ({"a": 0, "b": 0}, {"a": 1.0, "b": 2.0}, {"a": True, "b": False})


@pytest.mark.parametrize(
    ("result", "ended", "rewards"),
    [
        ((0, 1.5, False, False, {}), [], [1.5]),
        ((0, 1.5, False, True, {}), [0], [1.5]),
        ((0, 1, np.True_, {}), [0], [1.0]),
        ((NO, np.ones(4), NO, SOME, {}), [1, 3], [1.0] * 4),
        ((NO, np.ones(4), SOME, [{}]), [1, 3], [1.0] * 4),
        ((NO, np.ones((4, 1)), SOME.astype(np.float32)), [1, 3], [1.0] * 4),
        ((NO, [1, 2], [False, True], {}), [1], [1.0, 2.0]),
        ((0, torch.ones(4, 1), COLUMN, COLUMN, {}), [1], [1.0] * 4),
        ((*PARALLEL, {"a": False, "b": True}, {}), [0], [3.0]),
        ((*PARALLEL, {"a": True, "b": False}, {}), [], [3.0]),
        ("odd", [], [0.0]),
        (None, [], [0.0]),
    ],
)
def test_tuples_are_read(result, ended, rewards):
    assert list(TUPLES.ended(None, result)) == ended
    assert TUPLES.rewards(None, result) == rewards


def test_results_that_are_no_tuples_are_read_by_their_framework():
    reader = torchrl.FRAMEWORK.environments[0].reader
    data = TensorDict(done=COLUMN, reward=torch.ones(4, 1), observation=torch.zeros(4, 3, dtype=torch.float64))
    for result in (data, (data, data)):
        assert list(reader.ended(None, result)) == [1]
        assert reader.rewards(None, result) == [1.0] * 4
        assert reader.observation(result).dtype == torch.float64
    assert list(reader.ended(None, TensorDict())) == [] and reader.rewards(None, TensorDict()) == [0.0]
    reader = pettingzoo.FRAMEWORK.environments[1].reader
    env = Agents()
    assert list(reader.ended(env, None)) == [] and reader.rewards(env, None) == [1.5]
    env.agents = []
    assert list(reader.ended(env, None)) == [0]


def test_numbers_of_any_kind():
    values = (3, True, np.float32(2), np.arange(3), torch.arange(2, dtype=torch.float16), [1, np.int64(2)], [[1], [2]])
    assert [as_floats(value) for value in values] == [[3], [1], [2], [0, 1, 2], [0, 1], [1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("result", "is_transition"),
    [
        ((0, 1.0, False), True),
        ((0, np.ones(3), np.zeros(3)), True),
        ((0, torch.ones(3), torch.zeros(3, dtype=torch.bool), {}), True),
        ((0, [1.0, 2.0], [False, True]), True),
        ((0, np.ones(3), False), True),
        ((0, np.float32(1), np.bool_(True), False, {}), True),
        ((0, np.ones((3, 2)), np.zeros((3, 2))), False),
        ((0, 1.0, 0.5), False),
        ((0, np.ones(3), np.zeros(2)), False),
        ((0, "much", False), False),
        ((0, [], []), False),
        ((0, 1.0), False),
        (None, False),
    ],
)
def test_which_results_are_transitions(result, is_transition):
    """Environment classes that do not subclass gym.Env are known by what their step returns."""
    assert (transition_of(result) is not None) == is_transition


@pytest.mark.parametrize(
    ("result", "ended", "rewards"),
    [
        ((False, 0.5, False, np.ones(3, bool), np.ones(4)), [], [0.5]),  # done, reward, broken, mask, observation
        ((False, 0.5, True, np.ones(3, bool), np.ones(4)), [0], [0.5]),
        ((np.ones(4), True, 2.0), [0], [2.0]),
        ((np.array([False, True]), np.ones((2, 4)), np.array([1.0, 2.0])), [1], [1.0, 2.0]),
        ((np.ones(4), 1.0, False, np.ones(3), {}), [], [1.0]),  # a mask where Gymnasium says truncated
        ((np.ones(4), 1.0, False, True), [0], [1.0]),
        ((np.ones(4, bool), 1.0, False, {}), [], [1.0]),
        ((np.ones(4), 1.0, False, True, {}, np.ones(3)), [0], [1.0]),
        ((0, False, 0), [], [0.0]),  # reward, over, score: the observation is asked for elsewhere
        ((-10, True, 3), [0], [-10.0]),
        ((0.5, True), [0], [0.5]),
    ],
)
def test_parts_of_a_transition_are_known_by_their_types(result, ended, rewards):
    transition = transition_of(result)
    assert list(transition.reader.ended(None, result)) == ended
    assert transition.reader.rewards(None, result) == rewards
    assert transition.steps(None, None, result) == len(rewards)
    observation = transition.reader.observation(result)
    assert observation is None if transition.observation is None else observation.shape[-1] == 4


@pytest.mark.parametrize(
    ("result", "is_transition"),
    [
        ((np.ones((2, 4)), np.ones(2), np.array([False, True])), True),
        ((np.ones(4), 1.0, False, {}), True),
        ((np.ones((2, 4)), np.ones(2), np.zeros(2)), False),  # a batch of states, actions and rewards
        ((np.ones((2, 4)), np.ones(2), np.ones(2), np.ones((2, 4)), np.array([False, True])), False),
        ((3, 1.0, False), False),
        ((0, False, 0), False),
    ],
)
def test_of_functions_that_are_not_named_like_a_step_less_is_believed(result, is_transition):
    assert (transition_of(result, named_so=False) is not None) == is_transition


def test_what_is_missing_is_noted_once(monkeypatch):
    monkeypatch.setattr(notes, "_notes", {})
    framework = Framework("numpy", ("1.0", "99.0"), regions={"json:nowhere": stages.LOG, "json:Nobody.act": stages.LOG})
    unknown = Framework("hypothesis", ("0.1", "0.2"), environments=(EnvironmentClass("json:JSONDecoder"),))
    for description in (framework, unknown):
        for _, patch in description.patches():
            patch(json, Events())
    first, second = notes.notes()
    assert "json:nowhere is not as hotlap's adapter knows it" in first
    assert "hotlap's adapter knows 0.1 up to 0.2" in second


PLUGIN = """
from hotlap.core import stages
from hotlap.probe.framework import EnvironmentClass, Framework

FRAMEWORK = Framework(
    "toygame", None, regions={"toygame:save": stages.CHECKPOINT}, environments=(EnvironmentClass("toygame:Game"),)
)
"""
TOYGAME = """
class Game:
    def reset(self): return 0
    def step(self, action): return 0, 1.0, True, {}
def save(): pass
"""
SCRIPT = """
import json, sys
from hotlap.probe import notes
from hotlap.probe.events import EVENTS
from hotlap.probe.frameworks import BUILT_IN, frameworks
from hotlap.probe.recorder import install
install()
samples = []
EVENTS.start(samples.append)
import toygame
class Mine(toygame.Game): pass
game = Mine()
game.reset()
for _ in range(5): game.step(0)
toygame.save()
game.step(0)
EVENTS.stop()
print(json.dumps({"more": [f.package for f in frameworks()[len(BUILT_IN):]], "notes": notes.notes(),
                  "counts": samples[0].counts, "stages": sorted(samples[0].calls), "path": sys.path}))
"""


def python(code, folder, **environment):
    command = [sys.executable, "-c", code]
    variables = {**os.environ, "PYTHONPATH": SOURCE, **environment}
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def installed(tmp_path):
    """A folder with an installed plugin, and entry points of two broken ones."""
    site = tmp_path / "site"
    (site / "toyplugin").mkdir(parents=True)
    (site / "toyplugin" / "__init__.py").write_text("")
    (site / "toyplugin" / "measure.py").write_text(PLUGIN)
    (site / "brokenplugin.py").write_text("import nothing_of_this_name")
    information = site / "toyplugin-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toyplugin\nVersion: 1.0\n")
    entries = "toy = toyplugin.measure:FRAMEWORK\nbroken = brokenplugin:FRAMEWORK\ngone = gone.away:FRAMEWORK\n"
    (information / "entry_points.txt").write_text(f"[hotlap.frameworks]\n{entries}")
    return site


def test_plugins_reach_the_script_by_path(installed, tmp_path):
    (tmp_path / "toygame.py").write_text(TOYGAME)
    code = "import json; from hotlap.probe.frameworks import plugins; print(json.dumps(plugins.plugin_variable()))"
    variable = python(code, tmp_path, PYTHONPATH=os.pathsep.join([SOURCE, str(installed)]))
    assert variable[plugins.VARIABLE].split(os.pathsep) == [
        str(installed / "brokenplugin.py"),
        "gone.away",
        str(installed / "toyplugin" / "measure.py"),
    ]
    outcome = python(SCRIPT, tmp_path, **variable)
    assert str(installed) not in outcome["path"]  # the plugin's package is not installed where the script runs
    assert outcome["more"] == ["toygame"]
    assert (outcome["counts"]["env_steps"], outcome["counts"]["episodes"]) == (6, 6)
    assert {"checkpoint", "collect/env_step", "collect/env_reset"} <= set(outcome["stages"])
    assert len(outcome["notes"]) == 2
    assert any("brokenplugin.py" in note and "ModuleNotFoundError" in note for note in outcome["notes"])
    assert any("gone.away" in note for note in outcome["notes"])


def test_without_the_variable_installed_plugins_count(installed, monkeypatch):
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(installed)
    assert [framework.package for framework in frameworks()[len(BUILT_IN) :]] == ["toygame"]
    monkeypatch.setenv(plugins.VARIABLE, "")
    assert frameworks() == BUILT_IN
