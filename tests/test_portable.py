"""What runs in a user's process needs nothing but Python 3.9: the child program, the probe, and what they import of hotlap."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGES = ("hotlap.core", "hotlap.record", "hotlap.probe")
CHILD = ("bootstrap", "child", "blocks", "curve", "execute", "guard")  # of launch


def file_of(module):
    path = SOURCE.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def module_level(tree):
    """Statements that run when the module is imported; not those for type checkers."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        yield node
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for name in ("orelse",) if is_for_types else ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                pending += getattr(node, name, [])
        pending += [statement for handler in getattr(node, "handlers", []) for statement in handler.body]


def imports(path):
    """Modules that importing this file imports."""
    modules = []
    for node in module_level(ast.parse(path.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules += [module for module in inner if file_of(module)] or [node.module]
    return modules


def portable_files():
    """The child's and the probe's files, and all of hotlap that they import."""
    package = SOURCE / "hotlap"
    files, pending = set(), [*(package / "probe").rglob("*.py"), package / "interventions" / "__init__.py"]
    pending += [package / "launch" / f"{name}.py" for name in CHILD]
    while pending:
        path = pending.pop()
        if path not in files:
            files.add(path)
            ours = [module for module in imports(path) if module.split(".")[0] == "hotlap"]
            pending += [file for module in ours if (file := file_of(module))]
    return sorted(files)


FILES = portable_files()


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_syntax_and_imports(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    annotated = [node for node in ast.walk(tree) if getattr(node, "annotation", None) or getattr(node, "returns", None)]
    assert not annotated or path.name == "sitecustomize.py" or "from __future__ import annotations" in path.read_text()
    is_probe = path.is_relative_to(SOURCE / "hotlap" / "probe") and path.name != "sitecustomize.py"
    allowed = PACKAGES if is_probe else (*PACKAGES, "hotlap.interventions", "hotlap.launch", "hotlap.target")
    for module in imports(path):
        if module.split(".")[0] == "hotlap":
            assert module == "hotlap" or module.startswith(allowed), f"{module} is no part of what runs in a user's process"
        else:
            assert module.split(".")[0] in sys.stdlib_module_names, f"{module} is not in the standard library"


def test_the_check_sees_what_is_wrong(tmp_path):
    (tmp_path / "bad.py").write_text(
        "try:\n    import numpy\nexcept ImportError:\n    import psutil\ndef f():\n    import torch\n"
    )
    assert sorted(imports(tmp_path / "bad.py")) == ["numpy", "psutil"]
    (tmp_path / "new.py").write_text("match 1:\n    case 1: pass\n")
    with pytest.raises(SyntaxError):
        imports(tmp_path / "new.py")


def test_features_of_the_standard_library():
    pytest.importorskip("vermin")
    command = [sys.executable, "-c", "import vermin; vermin.main()", "-t=3.9-", "--violations", "--no-tips", *map(str, FILES)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout


TRAINING = """
import json, sys, time, traceback
from pathlib import Path
from hotlap.probe import core
from hotlap.probe.options import ProbeOptions
from hotlap.probe.recorder import Recorder, install
from hotlap.probe.stopping import StopProfiling
from hotlap.record.observed import Outcome, write_outcome

install()
folder = Path(sys.argv[1])
recorder = Recorder(folder, ProbeOptions(seconds=0.5, warmup=0, period=0.002, pause=0.0))
recorder.begin()
import gymnasium  # the one beside this script

class Walk(gymnasium.Env):
    def reset(self, seed=None, options=None):
        self.place = 0
        return 0, {}

    def step(self, action):
        total = 0
        for i in range(2_000):
            total = (total * 3 + i) % 1_000_003
        self.place += 1
        return self.place, 1.0, self.place == 10, False, {}

def learn(value):
    return [value * weight for weight in range(500)]

from hotlap.probe.events import EVENTS
env = Walk()
status = "done"
try:
    while True:
        env.reset()
        done = False
        while not done:
            _, reward, done, _, _ = env.step(0)
        EVENTS.optimizer_ended(EVENTS.begin("update/optimizer") * bool(learn(reward)))
except StopProfiling:
    pass
write_outcome(folder, Outcome(status, 0, None, recorder.end()))
print(json.dumps({"native": core._native is not None, "python": list(sys.version_info[:2]),
                  "foreign": sorted(sys.modules.keys() & {"numpy", "psutil", "torch", "scipy"})}))
"""
GYMNASIUM = """
import types
class Env: pass
class Wrapper(Env): pass
class ObservationWrapper(Wrapper): pass
class ActionWrapper(Wrapper): pass
class RewardWrapper(Wrapper): pass
class VectorEnv: pass
vector = types.SimpleNamespace(VectorEnv=VectorEnv)
"""


def interpreters():
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"))
    interpreters = {path.parents[1].name.rpartition(".")[0]: str(path) for path in pyenv}
    for minor in range(9, 14):
        name = f"3.{minor}"
        if name not in interpreters and (path := shutil.which(f"python{name}")):
            interpreters[name] = path
    return interpreters


@pytest.mark.parametrize("core", ["c", "python"])
@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_a_tiny_training_in_another_python(version, core, tmp_path):
    """Of the standard library alone: with core.c if there is a compiler, and without."""
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    (tmp_path / "gymnasium.py").write_text(GYMNASIUM)
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "run").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HOTLAP_FRAMEWORKS": "", "HOTLAP_CORE": core}
    command = [python, "-s", "train.py", "run"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    assert outcome["foreign"] == []
    assert f"{outcome['python'][0]}.{outcome['python'][1]}" == version
    assert not (core == "python" and outcome["native"])
    samples = [json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert sum(sample["counts"].get("env_steps", 0) for sample in samples) > 0
    assert any("collect/env_step" in sample["stages"] for sample in samples)
    outcome = json.loads((tmp_path / "run" / "outcome.json").read_text())
    assert outcome["hot_lines"][0]["function"] == "step"
    assert outcome["hot_lines"][0]["native"] is False
    assert outcome["description"]["environments"][0]["chain"] == ["Walk"]
    assert [note.split(" (")[0] for note in outcome["notes"]] == ([] if core == "c" else ["Hooks ran in Python"])
