"""Targets, secrets, the launcher, and that no child outlives hotlap."""

import ast
import os
import secrets as secrets_module
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hotlap.core import secrets
from hotlap.core.errors import UsageError
from hotlap.core.secrets import masked, masked_command, masked_environment
from hotlap.investigate.opening import begin
from hotlap.launch import linux, messages
from hotlap.launch.launcher import Child, Failure, Start
from hotlap.launch.messages import BlockDone, Failed, Progress, Ready
from hotlap.launch.scratch import ScratchKind
from hotlap.launch.spec import BlockSettings, CurveSettings, ProfileSettings, Spec, write_spec
from hotlap.launch.support import supported
from hotlap.probe.options import ProbeOptions
from hotlap.record.blocks import Block
from hotlap.record.header import Status
from hotlap.record.investigation import Settings
from hotlap.record.run import load
from hotlap.target import words
from hotlap.target.target import Script, System, Variant
from hotlap.verbs.investigate import investigate

# -- secrets --


@pytest.mark.parametrize(
    "name",
    [
        "--token",
        "--hf-token",
        "--api-key",
        "API_KEY",
        "apiKey",
        "WANDB_API_KEY",
        "password",
        "--db.passwd",
        "client_secret",
        "--auth",
    ],
)
def test_names_of_secrets_are_recognised(name):
    assert secrets.looks_secret(name)


@pytest.mark.parametrize(
    "name", ["--tokenizer", "--max-tokens", "--author", "--keys", "--key", "--num-envs", "--secretary", "--lr", ""]
)
def test_other_names_are_not(name):
    assert not secrets.looks_secret(name)


def test_secret_values_are_masked():
    given = ["--lr", "1", "--token", "abc", "--password=x=y", "api_key=k", "WANDB_API_KEY=w", "--auth", "--seed", "3"]
    assert masked(given) == [
        *("--lr", "1", "--token", "***", "--password=***", "api_key=***", "WANDB_API_KEY=***", "--auth", "--seed", "3")
    ]
    assert masked(["--url", "https://me:pw@host/x"]) == ["--url", "https://***@host/x"]
    assert masked(["++db.password=x", "run.token:=1"]) == ["++db.password=***", "run.token:=***"]
    assert masked_environment({"GITHUB_TOKEN": "abc", "OMP_NUM_THREADS": "2"}) == {
        "GITHUB_TOKEN": "***",
        "OMP_NUM_THREADS": "2",
    }
    assert masked_command("train.py --token 'a b' --note 'c d'") == "train.py --token *** --note 'c d'"
    assert masked_command("train.py  --note 'c d'") == "train.py  --note 'c d'"


def test_no_record_keeps_a_secret(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    command = "train.py --token hunter2 --lr 1"
    variant = words.variant(command)
    assert variant.target.arguments == ("--token", "hunter2", "--lr", "1") and "hunter2" not in variant.name
    run = begin(variant, masked_command(command), Settings(), tmp_path / "run")
    assert "hunter2" not in (run.path / "run.json").read_text()
    assert load(run.path).header.config["target"]["arguments"] == ["--token", "***", "--lr", "1"]
    run.finish(Status.INTERRUPTED)
    with pytest.raises(UsageError, match=r"train\.py --token \*\*\* --lr 1"):
        investigate(["--resume", str(run.path)])


def test_varied_secrets_are_masked_in_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    variants = words.vary("train.py --password pw", ["lr=1,2"])
    assert all("pw" not in str(variant.to_record()) for variant in variants)
    assert [variant.name for variant in words.vary("train.py", ["api_key=abc,def"])] == ["api_key=***1", "api_key=***2"]
    assert [variant.environment for variant in words.vary("train.py", ["X=1,2"])] == [{"X": "1"}, {"X": "2"}]


# -- targets --


def test_a_record_says_what_a_variant_is():
    script = Variant("a", Script("some/where/train.py", False, ("--lr", "1")), {"X": "1", "HOTLAP_INTERVENE": "/home/me"})
    assert script.to_record() == {
        "name": "a",
        "target": "train.py",
        "script": "train.py",
        "arguments": ["--lr", "1"],
        "environment": {"X": "1"},
        "env_only": False,
        "algorithm": None,
    }
    system = Variant("b", System("snake", "ppo", {"seed": 3}, True))
    assert system.to_record()["config"] == {"seed": 3} and system.to_record()["env_only"]
    assert system.target.seeded(2) == System("snake", "ppo", {"seed": 5}, True)


# -- messages and specs --


def test_messages_survive_the_pipe():
    sent = [
        Ready(),
        BlockDone(Block(1.0, 0.5, {"env_steps": 3.0}, {"collect": 0.5}, 7)),
        Progress(3, 0.5, 1.0, 3),
        Failed("no"),
    ]
    assert [messages.decode(messages.encode(message).strip()) for message in sent] == sent


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"kind": "x"}', b'{"kind": "block", "block": {"wall": -1}}', b'{"kind": "progress"}', b"[" * 10**5],
)
def test_what_is_no_message_is_refused(line):
    with pytest.raises(ValueError):
        messages.decode(line)


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        (Script("a.py", False, ("--x", "1")), ProfileSettings("run", ProbeOptions(seconds=1.5))),
        (Script("package.train", True), BlockSettings(0.5, 2)),
        (System("snake", "ppo", {"seed": 1}, True), CurveSettings(10, 2.0, 3, False)),
    ],
)
def test_a_spec_is_read_once(tmp_path, target, settings):
    path = tmp_path / "spec.json"
    write_spec(path, Spec(target, settings, 3, 4).to_json())
    assert path.stat().st_mode & 0o777 == 0o600
    assert Spec.take(path) == Spec(target, settings, 3, 4) and not path.exists()


def test_a_script_needs_no_package_of_ours(tmp_path):
    """What runs beside a user's script is standard library only."""
    program = (
        "import sys\nbefore = set(sys.modules)\n"
        "import hotlap.launch.child, hotlap.launch.guard, hotlap.launch.blocks, hotlap.launch.curve, hotlap.launch.execute\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'hotlap', 'hotlap_core'}))\n"
        "print(sorted({'.'.join(name.split('.')[:2]) for name in sys.modules if name.startswith('hotlap.')}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    foreign, ours = map(ast.literal_eval, done.stdout.splitlines())
    allowed = {"core", "record", "probe", "interventions", "launch", "target"}
    assert foreign == [] and {name.partition(".")[2] for name in ours} <= allowed


# -- how children end --

ESCAPES = """
import os, sys, time
from multiprocessing import shared_memory
import gymnasium

class Env(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        self.t = 0
        return 0, {}
    def step(self, action):
        self.t += 1
        return 0, 1.0, self.t >= 20, False, {}

memory = shared_memory.SharedMemory(create=True, size=64, name=f"{os.environ['MARK']}-{os.getpid()}")
if not os.fork():  # a daemon: a new session, its parent gone
    os.setsid()
    if os.fork():
        os._exit(0)
    while True:
        time.sleep(0.1)
if not os.fork():  # a plain child
    while True:
        time.sleep(0.1)
env = Env()
env.reset()
while True:
    if env.step(0)[2]:
        env.reset()
"""

HOTLAP = """
import sys
from pathlib import Path
from hotlap.experiment import learning
from hotlap.experiment.compare import run_interleaved
from hotlap.launch.options import ProfileOptions
from hotlap.launch.profile import profile_script
from hotlap.record.blocks import Plan, Schedule
from hotlap.record.header import Verb
from hotlap.target.target import Script, Variant

mode, kind = sys.argv[1:]
variants = [Variant(name, Script("train.py")) for name in "ab"]
if mode == "profile":
    profile_script(variants[0], ProfileOptions(), Path("run"))
elif mode == "blocks":
    plan = Plan(budget=600, control=False, schedule=Schedule(block=0.05, blocks=10**6, round=1e9, warmup=0))
    run_interleaved(Verb.COMPARE, variants, plan, Path("run"), scratch=kind)
else:
    learning.run_curve(variants[0], Path("run"), "curve", 0, scratch=kind)
"""


def marked(mark: str) -> list[int]:
    """Living processes that have this mark in their environment."""
    processes = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes() and " Z " not in (entry / "stat").read_text():
                    processes.append(int(entry.name))
    return processes


def wait_for(condition, seconds):
    """Whether this was true at some time; it may be so for a moment only, such as while a process forks."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return met


@pytest.mark.skipif(not linux.IS_LINUX, reason="elsewhere only the process group is killed")
@pytest.mark.parametrize(
    ("mode", "kind", "number"),
    [
        ("profile", "in-place", signal.SIGKILL),
        ("profile", "in-place", signal.SIGHUP),
        ("blocks", "overlay", signal.SIGKILL),
        ("blocks", "overlay", signal.SIGHUP),
        ("blocks", "copy", signal.SIGKILL),
        ("blocks", "in-place", signal.SIGKILL),
        ("curve", "overlay", signal.SIGKILL),
    ],
)
def test_nothing_outlives_hotlap(tmp_path, mode, kind, number):
    if kind == "overlay" and not supported().overlay:
        pytest.skip(f"no overlays here: {supported().reason}")
    (tmp_path / "train.py").write_text(ESCAPES)
    mark = f"hotlap-test-{secrets_module.token_hex(6)}"
    folders = {name: tmp_path / name.lower() for name in ("TMPDIR", "XDG_CACHE_HOME")}
    for folder in folders.values():
        folder.mkdir()
    mounts = Path("/proc/self/mountinfo").read_text()
    variables = {**os.environ, **{name: str(path) for name, path in folders.items()}, "MARK": mark}
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", HOTLAP, mode, kind], cwd=tmp_path, env=variables, stdout=output, stderr=output
        )
    variants = 2 if mode == "blocks" else 1
    scratches: set[str] = set()

    def is_under_way() -> bool:
        scratches.update(path.name for path in folders["TMPDIR"].glob("hotlap-scratch-*"))
        blocks = tmp_path / "run" / "blocks.jsonl"
        written = mode != "blocks" or (blocks.exists() and blocks.read_text().count("\n") > 3)
        # Each variant: a supervisor, the script, its daemon and its child, and what cleans up shared memory.
        return (written and len(marked(mark)) >= 1 + 5 * variants) or process.poll() is not None

    try:
        under_way = wait_for(is_under_way, 60) and process.poll() is None
        assert under_way, (
            process.poll(),
            marked(mark),
            log.read_text(),
            [path.read_text() for path in (tmp_path / "run").glob("*.*")],
        )
    finally:
        process.send_signal(number)
        process.wait()
    assert wait_for(lambda: not marked(mark), 60), marked(mark)
    assert wait_for(lambda: not [path for path in Path("/dev/shm").iterdir() if mark in path.name], 60)
    left = [path for name in scratches for root in (folders["TMPDIR"], Path("/var/tmp")) if (path := root / name).exists()]
    assert wait_for(lambda: not any(path.exists() for path in left), 60), left
    assert scratches or kind == "in-place"
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert not list((tmp_path / "run").glob(".spec*"))


@pytest.mark.skipif(not linux.IS_LINUX, reason="only Linux has subreapers")
def test_a_killed_supervisor_takes_its_namespace_along(tmp_path, monkeypatch):
    if not supported().pid_namespace:
        pytest.skip(f"no PID namespaces here: {supported().reason}")
    monkeypatch.chdir(tmp_path)
    mark = f"hotlap-test-{secrets_module.token_hex(6)}"
    (tmp_path / "train.py").write_text(ESCAPES)
    variant = Variant("a", Script("train.py"), {"MARK": mark})
    with Child(Start(variant, BlockSettings(0.05, 0), tmp_path / "run", ScratchKind.OVERLAY, log=tmp_path / "log")) as child:
        child.wait_until_ready(30)
        child._supervisor.kill()
        with pytest.raises(Failure, match="SIGKILL"):
            child.receive(10)
    assert wait_for(lambda: not marked(mark), 60)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("raise KeyError('x')", "KeyError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
        ("pass", "ended before enough was measured"),
    ],
)
@pytest.mark.parametrize("kind", [ScratchKind.AUTO, ScratchKind.IN_PLACE])
def test_how_a_child_failed_is_said(tmp_path, monkeypatch, text, message, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(text)
    start = Start(Variant("a", Script("train.py")), BlockSettings(0.05, 0), tmp_path / "run", kind, log=tmp_path / "log")
    with Child(start) as child, pytest.raises(Failure, match=message):
        child.wait_until_ready(30)


def test_a_paused_child_does_nothing(tmp_path, monkeypatch):
    """Its workers included: that is what makes the blocks of variants comparable."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(ESCAPES)
    mark = f"hotlap-test-{secrets_module.token_hex(6)}"
    variant = Variant("a", Script("train.py"), {"MARK": mark})
    with Child(Start(variant, BlockSettings(0.05, 0), tmp_path / "run", log=tmp_path / "log")) as child:
        child.wait_until_ready(30)
        child.pause()
        ours = [pid for pid in marked(mark) if b"launch.supervisor" not in Path(f"/proc/{pid}/cmdline").read_bytes()]

        def states() -> set[str]:
            return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in ours}

        # A signal takes effect when its process is next scheduled.
        assert len(ours) >= 3 and wait_for(lambda: states() == {"T"}, 60)
        assert child.block(30).wall >= 0.05
    assert not marked(mark)
