"""Scratches: what a script writes when it is run again never reaches the user's files."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.experiment import learning
from hotlap.experiment.compare import run_interleaved
from hotlap.launch import changes, copying, linux, scratch
from hotlap.launch.options import ProfileOptions
from hotlap.launch.profile import profile, profile_script
from hotlap.launch.scratch import Containment, ScratchKind
from hotlap.launch.support import Support, supported
from hotlap.record.blocks import Plan, Schedule, read_blocks
from hotlap.record.header import Status, Verb
from hotlap.target.target import Script, Variant

TRAIN = """
import os, sys
import gymnasium

class Env(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        self.t = 0
        return 0, {}
    def step(self, action):
        self.t += 1
        for _ in range(1000):
            pass
        return 0, 1.0, self.t >= 20, False, {}

with open(os.path.join("data", "curve.csv"), "a") as file:
    file.write("another row\\n")
with open("best_model.pt", "wb") as file:
    file.write(b"new weights")
os.makedirs("runs/second", exist_ok=True)
with open("runs/second/events", "w") as file:
    file.write("events")
os.remove("runs/first/events")
if len(sys.argv) > 1:
    with open(sys.argv[1], "w") as file:
        file.write("output")
env = Env()
env.reset()
for _ in range(int(os.environ.get("STEPS", 10**12))):
    if env.step(0)[2]:
        env.reset()
"""
PLAN = Plan(budget=0.5, control=False, schedule=Schedule(block=0.05, blocks=2, warmup=0))
SHORT = Variant("short", Script("train.py"), {"STEPS": "1000"})  # it ends by itself: it never learns


def need(kind: ScratchKind) -> ScratchKind:
    if kind is ScratchKind.OVERLAY and not supported().overlay:
        pytest.skip(f"no overlays here: {supported().reason}")
    return kind


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    for name, content in (("data/curve.csv", "a row\n"), ("best_model.pt", "weights"), ("runs/first/events", "old")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "train.py").write_text(TRAIN)
    monkeypatch.chdir(folder)
    return folder


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def variants(*arguments: str) -> list[Variant]:
    return [Variant(name, Script("train.py", False, arguments)) for name in ("a", "b")]


@pytest.mark.parametrize("kind", [ScratchKind.OVERLAY, ScratchKind.COPY])
def test_experiments_leave_the_folder_as_it_is(project, tmp_path, kind):
    need(kind)
    before = hashes(project)
    run = run_interleaved(Verb.COMPARE, variants(), PLAN, tmp_path / "compare", scratch=kind)
    assert run.header.status is Status.DONE, run.header.error
    assert len(read_blocks(run.path)) >= 4 and run.header.setup.scratch == kind.value
    curve = learning.run_curve(variants()[0], tmp_path / "learning", "curve", 0, steps=400, scratch=kind)
    assert curve.returns[:3] == (20.0, 20.0, 20.0)
    profiled = profile(SHORT, ProfileOptions(), tmp_path / "profile", kind)
    assert profiled.header.status is Status.DONE and profiled.header.observed.files_changed == ()
    assert hashes(project) == before


def test_the_record_may_lie_in_the_project(project):
    """As it does when nobody says where it should go; and what is written there is written for real."""
    kind = need(scratch.pick())
    before = hashes(project)
    run = run_interleaved(Verb.COMPARE, variants(), PLAN, scratch=kind)
    assert run.header.status is Status.DONE and run.path.parts[0] == ".hotlap" and len(read_blocks(run.path)) >= 4
    assert {name: value for name, value in hashes(project).items() if not name.startswith(".hotlap/")} == before
    assert not list(run.path.glob(".spec*"))


def test_an_absolute_path_is_contained_by_the_overlay(project, tmp_path):
    need(ScratchKind.OVERLAY)
    outside = tmp_path / "outside.csv"
    run = run_interleaved(Verb.COMPARE, variants(str(outside)), PLAN, tmp_path / "compare", scratch=ScratchKind.OVERLAY)
    assert run.header.status is Status.DONE and not outside.exists()


def test_an_absolute_path_is_refused_in_a_copy(project, tmp_path):
    outside = tmp_path / "outside.csv"
    run = run_interleaved(Verb.COMPARE, variants(str(outside)), PLAN, tmp_path / "compare", scratch=ScratchKind.COPY)
    assert run.header.status is Status.FAILED and str(outside) in run.header.error and "--in-place" in run.header.error
    assert not outside.exists()


def test_in_place_is_in_place_and_says_what_was_overwritten(project, tmp_path):
    run, code = profile_script(SHORT, ProfileOptions(), tmp_path / "run", log=tmp_path / "log")
    assert code == 0 and run.header.setup.scratch == "in-place"
    assert run.header.observed.files_changed == ("best_model.pt", "data/curve.csv", "runs/first/events")
    assert (project / "best_model.pt").read_bytes() == b"new weights"


def test_files_changed_ignores_new_files_and_the_record(tmp_path):
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "samples.jsonl").write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_text("")
    before = changes.snapshot([str(tmp_path)], tmp_path / "record")
    assert len(before) == 2
    (tmp_path / "old.txt").write_text("longer than it was")
    (tmp_path / "new.txt").write_text("new")
    assert changes.files_changed(before, [str(tmp_path)]) == ("old.txt",)


# -- which kind --


@pytest.mark.parametrize(
    ("support", "kind", "picked"),
    [
        (Support(True, True), ScratchKind.AUTO, ScratchKind.OVERLAY),
        (Support(False, False, "no"), ScratchKind.AUTO, ScratchKind.COPY),
        (Support(True, True), ScratchKind.COPY, ScratchKind.COPY),
        (Support(False, False, "no"), ScratchKind.IN_PLACE, ScratchKind.IN_PLACE),
    ],
)
def test_the_best_scratch_is_picked(monkeypatch, support, kind, picked):
    monkeypatch.setattr(scratch, "supported", lambda: support)
    assert scratch.pick(kind) is picked


def test_an_overlay_that_is_not_possible_is_refused(monkeypatch):
    monkeypatch.setattr(scratch, "supported", lambda: Support(False, False, "no user namespaces"))
    with pytest.raises(UsageError, match="no user namespaces"):
        scratch.pick(ScratchKind.OVERLAY)
    if linux.IS_LINUX:
        assert scratch.containment() is Containment.SUBREAPER


# -- copies --


def test_a_copy_leaves_out_what_no_script_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "LARGE", 1000)
    project, place = tmp_path / "project", tmp_path / "scratch"
    for name in (
        ".git/config",
        "venv/pyvenv.cfg",
        "env/pyvenv.cfg",
        "a/__pycache__/x.pyc",
        ".hotlap/runs/r/run.json",
        "a/b.py",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content")
    (project / "data.npz").write_bytes(b"x" * 2000)
    (project / "model.pt").write_bytes(b"x" * 2000)
    (project / "link").symlink_to("a/b.py")
    place.mkdir()
    copies = copying.copy_projects(place, [str(project)], ())
    copy = Path(copies.moved(str(project)))
    files = {str(path.relative_to(copy)) for path in copy.rglob("*") if not path.is_dir()}
    assert files == {"a/b.py", "data.npz", "model.pt", "link"}
    assert not (copy / "model.pt").is_symlink()  # it may be written to
    assert (copy / "data.npz").is_symlink() == bool(copies.linked)
    assert (copy / "link").resolve() == copy / "a" / "b.py"
    assert copies.moved("/elsewhere/file") == "/elsewhere/file"
    assert copies.moved(str(copy / "a")) == str(copy / "a")
    (copy / "model.pt").write_bytes(b"changed")
    assert (project / "model.pt").read_bytes() == b"x" * 2000


def test_a_project_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "MOST_BYTES", 1000)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "model.pt").write_bytes(b"x" * 2000)
    (tmp_path / "scratch").mkdir()
    with pytest.raises(UsageError, match="too large to copy"):
        copying.copy_projects(tmp_path / "scratch", [str(tmp_path / "project")], ())


def test_a_project_is_its_repository(tmp_path):
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    script = tmp_path / "repository" / "scripts" / "train.py"
    script.parent.mkdir()
    script.touch()
    assert copying.projects_of(script, tmp_path / "repository") == (str(tmp_path / "repository"),)
    (tmp_path / "elsewhere").mkdir()
    both = (str(tmp_path / "repository"), str(tmp_path / "elsewhere"))
    assert copying.projects_of(script, tmp_path / "elsewhere") == both


@pytest.mark.parametrize(
    "code",
    [
        "open({path!r}, 'w')",
        "import os; os.open({path!r}, os.O_WRONLY | os.O_CREAT)",
        "import os; os.mkdir({path!r})",
        "import os; os.rename('inside', {path!r})",
        "import os; os.symlink('inside', {path!r})",
        "import sqlite3; sqlite3.connect({path!r})",
        "import shutil; shutil.copy('inside', {path!r})",
        "import pathlib; pathlib.Path({path!r}).touch()",
        "\ntry:\n    open({path!r}, 'w')\nexcept Exception:\n    pass",
        "import os; os.remove({old!r})",
        "open('link', 'a')",
        "import torch; torch.save([1], {path!r})",
    ],
)
def test_the_guard_stops_what_writes_outside(tmp_path, code):
    inside, old = tmp_path / "scratch", tmp_path / "old"
    inside.mkdir()
    (inside / "inside").touch()
    old.touch()
    (inside / "link").symlink_to(old)
    path = tmp_path / "outside"
    text = code.format(path=str(path), old=str(old))
    program = f"from hotlap.launch import guard\nwatcher = guard.install()\nopen('fine', 'w').close()\n{text}"
    variables = {**os.environ, copying.VARIABLE: json.dumps({"pairs": [], "writable": [str(inside)]})}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=inside, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "OutsideScratch" in done.stderr, done.stderr
    assert (str(old) if "old" in text or "link'" in text else str(path)) in done.stderr
    assert not path.exists() and old.exists() and (inside / "fine").exists()


def test_the_guard_lets_reading_and_its_own_folder_be(tmp_path):
    (tmp_path / "data").write_text("data")
    inside = tmp_path / "scratch"
    inside.mkdir()
    program = (
        "from hotlap.launch import guard\nwatcher = guard.install()\nimport sqlite3, os\n"
        f"print(open({str(tmp_path / 'data')!r}).read())\nopen('/dev/null', 'w').write('x')\nos.makedirs('a/b')\n"
        "sqlite3.connect(':memory:')\nsqlite3.connect('base.db').execute('create table t (x)')\nprint(watcher.refused)"
    )
    variables = {**os.environ, copying.VARIABLE: json.dumps({"pairs": [], "writable": [str(inside)]})}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=inside, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["data", "None"]


# -- folders --


def test_scratches_of_dead_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "roots", lambda: [tmp_path / "one", tmp_path / "two"])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    own_scratch = scratch.create_scratch(spread=True)
    dead = tmp_path / "two" / own_scratch.name.replace(f"-{os.getpid()}-", "-4194305-")
    (dead / "work" / "work").mkdir(parents=True)
    (dead / "work" / "work").chmod(0)
    strange = tmp_path / "one" / f"{scratch.PREFIX}{os.getuid()}-strange"
    strange.mkdir()
    scratch.remove_stale()
    assert own_scratch.is_dir() and (tmp_path / "two" / own_scratch.name).is_dir() and strange.is_dir() and not dead.exists()
    scratch.remove_scratch(own_scratch)
    assert not own_scratch.exists() and not (tmp_path / "two" / own_scratch.name).exists()
