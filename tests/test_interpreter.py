"""Which Python runs a script, and that hotlap is a guest there: found by its path, with nothing that is installed beside it."""

import json
import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.launch.help import help_of
from hotlap.launch.scratch import ScratchKind
from hotlap.launch.support import supported
from hotlap.record.machine import PythonChoice
from hotlap.record.run import load
from hotlap.target.interpreter import resolve, with_interpreter
from hotlap.target.target import Script, System, Variant
from tests.cli import run_cli
from tests.test_portable import GYMNASIUM

# Says what it sees, on stderr: with --json its stdout is hotlap's.
SCRIPT = """
import json, multiprocessing, os, sys
import gymnasium, only_here

def importable(name):
    try:
        __import__(name)
        return True
    except ImportError:
        return False

def see(queue=None):
    foreign = [name for name in ("rich", "tyro", "numpy", "torch", "pytest") if importable(name)]
    seen = {"foreign": foreign, "prefix": sys.prefix, "hotlap": "hotlap.probe.recorder" in sys.modules}
    queue.put(seen) if queue else None
    return seen

class Walk(gymnasium.Env):
    def reset(self, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 1.0, False, False, {}

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    worker = context.Process(target=see, args=(queue,))
    worker.start()
    of_worker = queue.get()
    worker.join()
    env = Walk()
    env.reset()
    for _ in range(25):
        env.step(0)
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    print(json.dumps({"main": see(), "worker": of_worker, "first": sys.path[0], "path": path}), file=sys.stderr)
"""
# hotlap's own process, in an environment that has no torch.
BARE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "gymnasium", "cloudpickle", "safetensors", "tensorboard"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from hotlap.cli import main
main()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with modules that only it has."""
    folder = tmp_path_factory.mktemp("environments") / "lab"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    (packages / "only_here.py").write_text("")
    (packages / "gymnasium.py").write_text(GYMNASIUM)
    (packages / "hotlap.py").write_text("raise RuntimeError('another hotlap')")
    return folder


def bare_cli(*arguments, cwd, **variables):
    command = [sys.executable, "-c", BARE, *map(str, arguments)]
    env = {**os.environ, "COLUMNS": "200", **variables}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600)


def test_a_script_runs_in_the_active_environment(environment, tmp_path):
    """The main process and a spawned worker see that environment, hotlap is there by its path, and the record says all that."""
    (tmp_path / "train.py").write_text(SCRIPT)
    result = bare_cli(
        "profile", "train.py", "--out", "run", "--json", cwd=tmp_path, VIRTUAL_ENV=str(environment), PYTHONPATH="/user/own"
    )
    assert result.returncode == 0, result.stderr
    seen = json.loads(next(line for line in result.stderr.splitlines() if line.startswith('{"main"')))
    expected = {"foreign": [], "prefix": str(environment), "hotlap": True}
    assert seen["main"] == seen["worker"] == expected
    assert seen["first"] == str(tmp_path)
    assert len(seen["path"]) == 2 and seen["path"][1] == "/user/own"
    assert json.loads(result.stdout)["counts"]["env_steps"] == 25
    machine = load(tmp_path / "run").header.machine
    assert machine.python_choice is PythonChoice.VIRTUAL_ENV
    assert machine.python_path == "lab/bin/python"
    assert set(machine.versions) == {"hotlap"}
    assert str(environment) not in (tmp_path / "run" / "run.json").read_text()
    report = run_cli("report", "run", cwd=tmp_path).stdout
    assert "lab/bin/python, the active virtual" in " ".join(report.split())


@pytest.mark.parametrize("kind", [ScratchKind.COPY, ScratchKind.OVERLAY])
def test_a_script_in_a_scratch_sees_the_same(environment, kind, tmp_path, monkeypatch):
    if kind is ScratchKind.OVERLAY and not supported().overlay:
        pytest.skip("no overlays here")
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    variant = with_interpreter(Variant("a", Script("train.py")), str(environment / "bin" / "python"))
    printed = help_of(variant.target, kind)
    seen = json.loads(next(line for line in printed.splitlines() if line.startswith('{"main"')))
    assert seen["main"]["foreign"] == [] and seen["main"]["prefix"] == str(environment)


def test_a_missing_module_names_the_python(environment, tmp_path):
    (tmp_path / "train.py").write_text("import a_module_of_another_environment\n")
    python = environment / "bin" / "python"
    result = bare_cli("profile", "train.py", "--python", python, "--out", "run", "--json", cwd=tmp_path)
    assert result.returncode == 1, result.stderr
    error = load(tmp_path / "run").header.error
    version = ".".join(map(str, sys.version_info[:3]))
    assert error.endswith(f"(Python {version} ran the script; --python PATH chooses another)")


# -- which one --


def link_python(folder, name="python"):
    folder.mkdir(parents=True)
    (folder / name).symlink_to(Path(sys.executable).resolve())


def test_the_order_of_choices(tmp_path, monkeypatch):
    for place in ("venv/bin", "conda/bin", "flag"):
        link_python(tmp_path / place)
    link_python(tmp_path / "path", "python3")
    (tmp_path / "path" / "python").write_text("#!/bin/sh\nexit 127\n")  # a shim without a version behind it
    (tmp_path / "path" / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    chosen = [resolve(str(tmp_path / "flag" / "python")), resolve()]
    monkeypatch.delenv("VIRTUAL_ENV")
    chosen.append(resolve())
    monkeypatch.delenv("CONDA_PREFIX")
    chosen.append(resolve())
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    chosen.append(resolve())
    places = ["flag/python", "venv/bin/python", "conda/bin/python", "path/python3"]
    assert [interpreter.path for interpreter in chosen] == [*(str(tmp_path / place) for place in places), sys.executable]
    assert [interpreter.choice for interpreter in chosen] == list(PythonChoice)


def test_what_cannot_run_scripts_is_one_clear_line(tmp_path):
    (tmp_path / "train.py").write_text("")
    (tmp_path / "text").write_text("no program")
    old = tmp_path / "old"
    old.write_text('#!/bin/sh\necho \'{"executable": "/x", "version": [3, 8, 1], "prefix": "/", "packages": {}}\'\n')
    old.chmod(0o755)
    cases = {"nowhere": "no program 'nowhere'", "./text": "no program './text'", "/bin/true": "it is no Python that works"}
    cases["./old"] = "it is Python 3.8.1; hotlap profiles scripts of Python 3.9 or newer"
    for python, message in cases.items():
        result = run_cli("profile", "train.py", "--python", python, cwd=tmp_path, code=2)
        assert message in result.stderr and f"--python {python}" in result.stderr and len(result.stderr.splitlines()) == 1
    result = run_cli("profile", "train.py", cwd=tmp_path, code=2, VIRTUAL_ENV=str(tmp_path / "gone"))
    assert "VIRTUAL_ENV" in result.stderr and not (tmp_path / ".hotlap").exists()


def test_a_system_has_no_other_python(tmp_path):
    assert "only for scripts" in run_cli("profile", "snake", "--python", sys.executable, cwd=tmp_path, code=2).stderr
    with pytest.raises(UsageError, match="only for scripts"):
        with_interpreter(Variant("snake", System("snake")), sys.executable)


def test_a_record_keeps_no_path_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    interpreter = resolve(sys.executable)
    cases = {tmp_path / ".venv/bin/python": ".venv/bin/python", "/home/me/envs/rl/bin/python": "~/envs/rl/bin/python"}
    cases["/opt/envs/rl/bin/python"] = "rl/bin/python"
    for path, shown in cases.items():
        assert replace(interpreter, executable=str(path)).shown == shown


# -- without torch --


def test_the_command_line_imports_no_heavy_package():
    heavy = "torch gymnasium numpy scipy plotly libcst safetensors tensorboard cloudpickle"
    program = f"import sys, hotlap, hotlap.cli\nprint([name for name in '{heavy}'.split() if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("command", ["train snake", "profile snake", "sweep snake --vary num_envs=1,2", "investigate snake"])
def test_systems_without_the_extra(command, tmp_path):
    result = bare_cli(*command.split(), cwd=tmp_path)
    assert result.returncode == 2
    assert "pip install 'hotlap[train]'" in result.stderr and len(result.stderr.strip().splitlines()) == 1
