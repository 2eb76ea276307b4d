"""hotlap ended by a signal at random moments: nothing that it started lives on, nothing that it mounted or shared is left,
every record can be read, every resume goes on. A sample here; a hundred in `make endurance`."""

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from hotlap.record.run import load

# A script that trains with worker processes, and starts a daemon in a session of its own, as some simulators do.
SCRIPT = """\
import multiprocessing, os, subprocess, sys, time
from multiprocessing.shared_memory import SharedMemory


def work():
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    shared = SharedMemory(f"{os.environ['MARK']}-{os.getpid()}", create=True, size=1000)
    subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: time.sleep(0.1)"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            work()
        os._exit(0)
    multiprocessing.get_context("fork").Process(target=work, daemon=True).start()
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    with open("log.csv", "a") as log:
        for step in range(10**9):
            _, _, done, cut, _ = env.step(step % 2)
            if done or cut:
                env.reset()
                log.write(f"{step}\\n")
"""

SMALL = "--num-envs 8 --size 6 --iteration-steps 8 --updates-per-step 1 --learning-starts 64 --buffer-size 2000"
VERBS = {
    "profile": ["profile", "train.py", "--seconds", "60"],
    "compare": ["compare", "--rerun", "train.py", "train.py", "--budget", "60s", "--block", "0.1s", "--no-control"],
    "copy": ["compare", "--rerun", "train.py", "train.py", "--budget", "60s", "--block", "0.1s", "--scratch", "copy"],
    "sweep": ["sweep", "--rerun", "train.py", "--vary", "OMP_NUM_THREADS=1,2", "--budget", "60s", "--block", "0.1s"],
    "investigate": ["investigate", "train.py", "--budget", "60s", "--rerun"],
    "train": ["train", "snake", "--preset", "seed", "--workers", "2", *SMALL.split()],
}

RESUMES = ("train", "investigate")  # what can go on
SIGNALS = (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


def marked(mark: str) -> list[str]:
    """The command lines of processes that carry a mark in their environment."""
    alive = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and (folder / "stat").read_text().split(") ")[1][0] != "Z":
                alive.append(f"{folder.name} {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()[:100]}")
        except OSError:
            continue
    return alive


def kill_hotlap(verb: str, seconds: float, folder: Path, number: int = signal.SIGKILL) -> None:
    """Start a verb, end hotlap by a signal after some time, and see that nothing is left of it."""
    mark = f"hotlap-test-{uuid.uuid4().hex}"
    temporary = folder / "tmp"
    temporary.mkdir()
    (folder / "work").mkdir()
    (folder / "work" / "train.py").write_text(SCRIPT)
    (folder / "work" / "log.csv").write_text("kept\n")
    mounts = Path("/proc/self/mounts").read_text()
    environment = {**os.environ, "TMPDIR": str(temporary), "MARK": mark}
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", *VERBS[verb]],
        cwd=folder / "work",
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(seconds)
    process.send_signal(number)
    process.wait()
    deadline = time.monotonic() + 60
    while (alive := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive, (verb, seconds, alive)
    assert not list(Path("/dev/shm").glob(f"{mark}*")), (verb, seconds)
    assert Path("/proc/self/mounts").read_text() == mounts, (verb, seconds)
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert not left, (verb, seconds, left[:5])
    for record in (folder / "work").glob(".hotlap/runs/**/run.json"):
        load(record.parent)
    if verb != "profile":
        assert (folder / "work" / "log.csv").read_text() == "kept\n", (verb, seconds)
    if verb in RESUMES:
        check_resume(verb, folder / "work", environment)


def check_resume(verb: str, folder: Path, environment: dict[str, str]) -> None:
    """What was cut off goes on: it runs for some seconds, and ends when it is asked to."""
    runs = [run for run in folder.glob(".hotlap/runs/*") if (run / "run.json").exists()]
    if not runs:
        return  # there was nothing yet to go on with
    what = ["train", "snake"] if verb == "train" else ["investigate"]
    command = [sys.executable, "-m", "hotlap", *what, "--resume", str(runs[0])]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            _, problem = process.communicate(timeout=8)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            _, problem = process.communicate(timeout=120)
    assert process.returncode in (0, 1, 130), problem[-500:]
    load(runs[0])


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_leaves_nothing(verb, tmp_path):
    kill_hotlap(verb, 3.0, tmp_path)


@pytest.mark.endurance
@pytest.mark.parametrize("number", range(100))
def test_a_hundred_kills_leave_nothing(number, tmp_path):
    coin = random.Random(number)
    kill_hotlap(coin.choice(list(VERBS)), coin.uniform(0.1, 12.0), tmp_path, coin.choice(SIGNALS))
