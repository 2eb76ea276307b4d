"""What profiling a script costs its own loop: hotlap against other profilers, on the same scripts.

    python benchmarks/probe_cost.py

The script runs once under each profiler and once without one, in processes that take turns of four seconds on one core, so
that a slow phase of the machine hits all alike. (hotlap's pauses between windows go by the clock: in turns of half a second
they would be over whenever a process is continued, and half of the time would be measured instead of a third.) The script
itself says how much CPU time a step of its loop took, a profiler's threads in its process included. (py-spy samples from a
process of its own, whose time is not in it.)
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from side_by_side import err, pin_to_one_core, save, speedup

SCRIPTS = Path(__file__).with_name("scripts")
STEPS = {"sb3_ppo.py": 163_840, "plain_ppo.py": 163_840}  # about ten seconds, as long as a profile
ROUNDS, PEER_ROUNDS = 4, 2  # other profilers cost far more than the noise, and need fewer rounds to show it
SLICE = 4.0  # seconds
GOALS = {"hotlap": 1.06, "hotlap without lines": 1.03}
BIN = Path(sys.executable).parent


def contenders(folder: Path) -> dict[str, list[str]]:
    """Command prefixes; the script and its arguments follow. Other profilers take part if they are installed."""
    python = str(BIN / "python")
    commands = {
        "bare": [python],
        "hotlap": ["--lines"],  # flags of `hotlap profile`
        "hotlap without lines": ["--no-lines"],
        "pyinstrument": [python, "-m", "pyinstrument", "-o", str(folder / "pyinstrument.txt")],
        "py-spy": [str(BIN / "py-spy"), "record", "-o", str(folder / "py-spy.svg"), "--", python],
        "viztracer": [str(BIN / "viztracer"), "-o", str(folder / "viztracer.json"), "--quiet"],
        "scalene": [python, "-m", "scalene", "run", "--cpu-only", "-o", str(folder / "scalene.json")],
    }
    here = [name for name in commands if (BIN / name).exists() or shutil.which(name)]
    return {name: command for name, command in commands.items() if name in here or name.startswith(("bare", "hotlap"))}


def command(name: str, prefix: list[str], script: str, folder: Path, steps: int) -> list[str]:
    path = str(SCRIPTS / script)
    if name.startswith("hotlap"):
        flags = [*prefix, "--seconds", "600", "--out", f"{tempfile.mkdtemp(dir=folder)}/run"]
        return [str(BIN / "hotlap"), "profile", path, "--python", sys.executable, *flags, "--", str(steps)]
    return [*prefix, path, "---", str(steps)] if name == "scalene" else [*prefix, path, str(steps)]


class Contender:
    """A running script, which goes on only when it is its turn."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._output = tempfile.TemporaryFile("w+", dir=folder)  # noqa: SIM115  # closed with the object
        self._process = subprocess.Popen(arguments, cwd=folder, stdout=self._output, stderr=subprocess.STDOUT)
        self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self._process.pid)
            for process in (parent, *parent.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)

    def run(self, seconds: float) -> bool:
        """Let it run for a while; whether it goes on after that."""
        self._send(signal.SIGCONT)
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process.poll() is None:
            time.sleep(0.02)
        self._send(signal.SIGSTOP)
        return self._process.poll() is None

    def cpu_per_step(self) -> float:
        self._output.seek(0)
        lines = self._output.read().splitlines()
        printed = [float(line.split()[1]) for line in lines if line.startswith("cpu_s_per_step")]
        if not printed:
            raise RuntimeError(f"{self._process.args!r} exited with {self._process.returncode}: {lines[-1] if lines else ''}")
        return printed[0]


def take_turns(commands: dict[str, list[str]], folder: Path, coin: random.Random) -> dict[str, float]:
    """CPU time per step of each."""
    contenders = {name: Contender(arguments, folder) for name, arguments in commands.items()}
    left = dict(contenders)
    while left:
        for name in coin.sample(list(left), len(left)):
            if not left[name].run(SLICE):
                del left[name]
    return {name: contender.cpu_per_step() for name, contender in contenders.items()}


def main() -> None:
    pin_to_one_core()
    os.environ["OMP_NUM_THREADS"] = "1"
    coin = random.Random(0)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profilers = {}
        for profiler, prefix in contenders(folder).items():
            try:
                take_turns({profiler: command(profiler, prefix, "plain_ppo.py", folder, 2_048)}, folder, coin)
                profilers[profiler] = prefix
            except RuntimeError as error:
                err.print(f"{profiler} cannot take part here: {error}")
        for script, steps in STEPS.items():
            samples: dict[str, list[float]] = {profiler: [] for profiler in profilers}
            for number in range(ROUNDS):
                err.print(f"{script}: round {number + 1} of {ROUNDS}")
                running = [name for name in profilers if number < PEER_ROUNDS or name.startswith(("bare", "hotlap"))]
                commands = {name: command(name, profilers[name], script, folder, steps) for name in running}
                for profiler, seconds in take_turns(commands, folder, coin).items():
                    samples[profiler].append(seconds)
            for profiler in profilers:
                if profiler != "bare":
                    pair = {"bare": samples["bare"][: len(samples[profiler])], profiler: samples[profiler]}
                    title = f"{script}: {profiler} / bare, CPU time"
                    results[title] = speedup(pair, profiler, "bare") | {"at_most": GOALS.get(profiler)}
    save("probe_cost", "python benchmarks/probe_cost.py", results)


if __name__ == "__main__":
    main()
