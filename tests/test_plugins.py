"""The walk-throughs of CONTRIBUTING.md, done: their very files, built into a package, and hotlap run with it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"

# A framework that hotlap knows nothing of, and a script that trains with it and prints far too much.
TINYRL = """\
class World:
    def reset(self):
        self.t = 0
        return [0.0]

    def advance(self, action):
        self.t += 1
        return [float(self.t)], 1.0, self.t >= 10


class Memory:
    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append([row] * 200)

    def draw(self):
        return [sum(range(100)) for _ in range(20)]
"""
SCRIPT = """\
import sys
import tinyrl
import torch

torch.set_num_threads(1)
world, memory = tinyrl.World(), tinyrl.Memory()
net = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
world.reset()
for step in range(10**9):
    row = world.advance(step % 2)
    for _ in range(30):
        print("step", step)
        sys.stdout.flush()
    memory.add(row)
    if len(memory.rows) >= 20:
        memory.rows.clear()
        memory.draw()
        net(torch.ones(4, 1)).mean().backward()
        optimizer.step()
    if row[2]:
        world.reset()
"""


def blocks() -> dict[str, str]:
    """The files of the guide, by the path in their first line."""
    texts = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return dict(texts)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder like site-packages with the plugin installed in it, and the framework that it knows."""
    folder = tmp_path_factory.mktemp("site")
    files = blocks()
    project = tomllib.loads(files.pop("pyproject.toml"))["project"]
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    (folder / "tinyrl.py").write_text(TINYRL)
    return folder


def hotlap(site, cwd, *arguments, code=0):
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}
    command = [sys.executable, "-m", "hotlap", *arguments]
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == code, result.stderr + result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def profiled(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "train.py").write_text(SCRIPT)
    doc = json.loads(hotlap(site, folder, "profile", "train.py", "--iterations", "3", "--out", "run", "--json"))
    return folder, doc


def test_the_guide_has_all_four():
    assert set(blocks()) == {
        "pyproject.toml",
        "hotlap_example/causes.py",
        "hotlap_example/framework.py",
        "hotlap_example/system.py",
        "hotlap_example/csv_format.py",
    }


def test_a_framework_of_a_plugin_reaches_the_script(profiled):
    _, doc = profiled
    assert doc["counts"]["env_steps"] > 0
    assert doc["stages"]["collect/env_step"]["calls"] > 0
    assert doc["stages"]["collect/store"]["calls"] > 0


def test_a_cause_of_a_plugin_is_found(site, profiled):
    folder, _ = profiled
    findings = json.loads(hotlap(site, folder, "diagnose", "run", "--json"))["findings"]
    by_cause = {finding["cause"]: finding for finding in findings}
    assert "Printing took" in by_cause["busy-print"]["evidence"][0]
    assert by_cause["busy-print"]["confirm"] is None and "logger-per-step" not in by_cause
    assert "advice only" in hotlap(site, folder, "diagnose", "run")


def test_a_format_of_a_plugin_renders(site, profiled):
    folder, _ = profiled
    text = hotlap(site, folder, "report", "run", "--format", "csv")
    assert "Where the time went" in text and "env_step," in text


def test_a_system_of_a_plugin_is_listed_and_trained(site, tmp_path):
    assert "tiny-snake" in hotlap(site, tmp_path, "systems")
    flags = ["--total-steps", "1000", "--evaluation-episodes", "2", "--json"]
    doc = json.loads(hotlap(site, tmp_path, "train", "tiny-snake", *flags))
    assert doc["target"] == "tiny-snake" and doc["evaluation"]["episodes"] == 2
    assert json.loads(hotlap(site, tmp_path, "profile", "tiny-snake", "--env-only", "--iterations", "2", "--json"))["stages"]


def test_a_broken_plugin_is_said_and_does_no_harm(site, tmp_path, profiled):
    broken = tmp_path / "broken"
    info = broken / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hotlap.causes]\nbad = nowhere:X\n[hotlap.formats]\nbad = json:dumps\n[hotlap.systems]\nbad = nowhere:S\n"
    )
    folder, _ = profiled
    assert "nowhere" in hotlap(broken, folder, "diagnose", "run")
    hotlap(broken, folder, "report", "run")
    assert "snake" in hotlap(broken, tmp_path, "systems")
