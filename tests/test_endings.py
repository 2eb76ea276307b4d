"""Where hotlap runs, and how it ends there: full disks, read-only folders, no HOME, LANG=C, no compiler, two at once; and in
time, whatever the script does."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hotlap.core.errors import TargetFailed
from hotlap.core.sample import Sample
from hotlap.launch import linux, pulse
from hotlap.launch.messages import Pulse
from hotlap.launch.options import ProfileOptions
from hotlap.record.header import Status
from hotlap.record.lines import WARMUP, Recorded
from hotlap.record.run import load
from hotlap.record.summary import profile_of
from hotlap.report import findings
from hotlap.report.show import report_of
from tests.report_runs import make_run

SCRIPT = """
import gymnasium
env = gymnasium.make("CartPole-v1")
env.reset(seed=0)
for step in range(STEPS):
    if any(env.step(step % 2)[2:4]):
        env.reset()
"""


def hotlap(folder, *arguments, environment=None, prefix=()):
    command = [*prefix, sys.executable, "-m", "hotlap", *arguments]
    environment = os.environ if environment is None else environment
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300, check=False)


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT.replace("STEPS", "3000"))
    return tmp_path


# -- where it runs --


def test_a_script_that_removes_its_record_ends_in_one_line(tmp_path):
    (tmp_path / "train.py").write_text("import shutil, sys\nshutil.rmtree('.hotlap')\nsys.exit(7)\n")
    result = hotlap(tmp_path, "profile", "train.py")
    assert result.returncode == 7
    assert b"ended with exit code 7, and its record is gone" in result.stderr.splitlines()[-1]
    assert b"Traceback" not in result.stderr


def test_without_home_in_the_c_locale_with_spaces_and_umlauts(tmp_path):
    folder = tmp_path / "zwei Wörter"
    folder.mkdir()
    (folder / "träin it.py").write_text("print('hello')\n")
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "LANG", "LC_ALL", "PYTHONUTF8")}
    for more in ({}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        result = hotlap(folder, "profile", "träin it.py", environment={**kept, "LANG": "C", "LC_ALL": "C", **more})
        assert result.returncode == 0, result.stderr
        assert b"hello" in result.stdout and b"found no RL" in result.stdout


def test_two_at_once_in_one_folder(script):
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: hotlap(script, "profile", "train.py", "--no-lines"), range(2)))
    assert [result.returncode for result in results] == [0, 0]
    runs = [load(path) for path in (script / ".hotlap" / "runs").iterdir()]
    assert len(runs) == 2 and all(run.status is Status.DONE for run in runs)


@pytest.mark.exact
def test_without_a_compiler(script):
    environment = {**os.environ, "PATH": "/nonexistent", "XDG_CACHE_HOME": str(script / "cache")}
    result = hotlap(script, "profile", "train.py", environment=environment)
    assert result.returncode == 0 and b"Where the time went" in result.stdout, result.stderr


def _can_mount():
    try:
        return linux.IS_LINUX and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.exact
@pytest.mark.skipif(not _can_mount(), reason="mounts a small file system")
@pytest.mark.parametrize(
    ("options", "message"), [("size=64k", "No space left on device"), ("ro,size=1m", "Read-only file system")]
)
def test_full_disks_and_read_only_folders_end_in_one_line(options, message, script):
    (script / "disk").mkdir()
    mount = f"mount -t tmpfs -o {options} tmpfs disk && cd disk && (head -c 1M /dev/zero > fill; true) 2> /dev/null"
    prefix = ["unshare", "-m", "bash", "-c", f'{mount} && exec "$@"', "-"]
    for verb in (["profile", "../train.py"], ["compare", "../train.py", "../train.py", "--budget", "3s"]):
        result = hotlap(script, *verb, prefix=prefix)
        assert result.returncode == 2, result.stdout + result.stderr
        last = result.stderr.decode().splitlines()[-1]
        assert last.startswith("hotlap: cannot") and message.lower() in last.lower()
        assert b"Traceback" not in result.stderr


# -- crashes --


def test_a_crash_is_no_diagnosis(tmp_path):
    from hotlap.causes import diagnose

    run = make_run(tmp_path / "run")
    run.finish(Status.FAILED, error="the script was killed by SIGABRT before hotlap could finish")
    text = findings.sections(diagnose(run))[0]
    assert "This run crashed: the script was killed by SIGABRT" in text.lines[0] and "Nothing that" not in text.lines[0]
    assert "failed" in findings.headline(diagnose(run))


def test_iterations_that_did_not_fit_are_shown(tmp_path):
    run = make_run(tmp_path / "run")
    (run.path / "samples.jsonl").write_text("")
    run.lines = []
    for number, updates in enumerate((0, 3, 4)):
        sample = Sample(number * 10**9, 10**9, {"collect": 9 * 10**8}, {"collect": 9 * 10**8}, {"collect": 1})
        sample.counts.update({"env_steps": 5, "updates": updates})
        run.append(Recorded(WARMUP, sample, 1))
    profile = profile_of(load(run.path))
    assert profile.iterations.measured == 2 and profile.stages["collect"].share == pytest.approx(0.9)
    assert any("No iteration was completed after warm-up: these" in line for line in profile.warnings)
    assert report_of(profile).sections


# -- time --


class SlowChild:
    """A child that answers as it is told to, and never ends by itself."""

    def __init__(self, clock, pulses):
        self.clock, self.pulses, self.signals, self.killed = clock, pulses, [], False

    def wait(self, timeout):
        self.clock.now += timeout

    def messages(self):
        return [message for when, message in self.pulses if when <= self.clock.now]

    def signal(self, number):
        self.signals.append((self.clock.now, number))

    def kill(self):
        self.killed = True


@pytest.mark.parametrize(
    ("pulses", "seconds", "latest"),
    [
        ([], 5.0, 60.0),  # hangs before its first line
        ([(1.0, Pulse())], 5.0, 60.0),  # never trains: patience
        ([(1.0, Pulse()), (40.0, Pulse(True))], 20.0, 40.0 + 1.2 * 20),
    ],
)
def test_a_script_that_does_not_stop_is_ended(pulses, seconds, latest, monkeypatch):
    class FakeClock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock = FakeClock()
    monkeypatch.setattr(pulse, "time", clock)
    child = SlowChild(clock, pulses)
    with pytest.raises(TargetFailed):
        pulse.wait_in_time(child, ProfileOptions(seconds=seconds, patience=60.0), lambda *_: None)
    assert child.killed and clock.now <= latest + 10.0
    asked = {pulse.SIGNAL} if pulses else set()
    assert {number for _, number in child.signals} == asked | {pulse.signal.SIGTERM}


@pytest.mark.exact
@pytest.mark.parametrize("handler", ["", "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"])
def test_what_was_seen_of_a_script_that_does_not_stop_is_kept(handler, tmp_path):
    (tmp_path / "train.py").write_text(
        f"{handler}import time, gymnasium, torch\nenv, net = gymnasium.make('CartPole-v1'), torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\nobs, _ = env.reset()\n"
        "try:\n    while True:\n        net(torch.from_numpy(obs)).sum().backward()\n        optimizer.step()\n"
        "        obs, _, done, _, _ = env.step(0)\n        if done: env.reset()\n"
        "finally:\n    time.sleep(600)\n"
    )
    result = hotlap(tmp_path, "profile", "train.py", "--seconds", "2")
    assert result.returncode == 0, result.stderr
    assert b"hotlap ended it." in result.stdout and b"missing" not in result.stdout
    observed = load(next((tmp_path / ".hotlap" / "runs").glob("2*"))).header.observed
    assert observed.hot_lines and observed.description.optimizers


@pytest.mark.exact
def test_a_minutes_iterations_end_in_time(tmp_path):
    (tmp_path / "train.py").write_text(
        "import time, gymnasium, torch\ntime.sleep(5)\nenv, net = gymnasium.make('CartPole-v1'), torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\nobs, _ = env.reset()\n"
        "while True:\n    with torch.no_grad(): net(torch.from_numpy(obs))\n    obs, *_ = env.step(0)\n    env.reset()\n"
        "    for _ in range(60):\n        net(torch.zeros(8, 4)).sum().backward()\n        optimizer.step(); time.sleep(1)\n"
    )
    began = time.monotonic()
    result = hotlap(tmp_path, "profile", "train.py", "--seconds", "5")
    assert result.returncode == 0 and b"No iteration was completed after warm-up: these" in result.stdout
    assert time.monotonic() - began < 60
    began = time.monotonic()
    result = hotlap(tmp_path, "compare", "train.py", "train.py", "--budget", "20s", "--no-control", "--rerun")
    assert result.returncode == 1 and time.monotonic() - began < 60
    assert b"larger --budget" in result.stdout
