"""What profiling a script costs its own loop: hotlap against other profilers, interleaved, on the same scripts.

    python benchmarks/probe_cost.py

Each contender runs the script in a fresh process; the script itself says how many steps per second its loop made, and how much
CPU time a step took: less noisy than wall time on a shared machine, and an upper bound, for it counts a profiler's own threads
in that process, which another core may run. (py-spy samples from a process of its own, so its CPU time is not in it.)
"""

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import err, save, speedup

SCRIPTS = Path(__file__).with_name("scripts")
STEPS = {"sb3_ppo.py": 40_960, "plain_ppo.py": 40_960}
ROUNDS, PEER_ROUNDS = 12, 4  # other profilers cost far more than the noise, and need fewer rounds to show it
GOALS = {"hotlap": 1.06, "hotlap without lines": 1.03}
PRINTED = ("steps_per_s", "cpu_s_per_step")
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


def seconds_per_step(name: str, prefix: list[str], script: str, folder: Path, steps: int) -> tuple[float, float]:
    """Wall and CPU time of a step of the script's loop."""
    arguments = [str(SCRIPTS / script), str(steps)]
    command = [*prefix, *arguments]
    if name.startswith("hotlap"):
        out = tempfile.mkdtemp(dir=folder)
        flags = [*prefix, "--seconds", "600", "--out", f"{out}/run"]
        command = [str(BIN / "hotlap"), "profile", arguments[0], *flags, "--", arguments[1]]
    if name == "scalene":
        command = [*prefix, arguments[0], "---", arguments[1]]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
    said = {words[0]: float(words[1]) for words in map(str.split, output.splitlines()) if words and words[0] in PRINTED}
    return 1 / said["steps_per_s"], said["cpu_s_per_step"]


def main() -> None:
    coin = random.Random(0)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profilers = {}
        for profiler, prefix in contenders(folder).items():
            try:
                seconds_per_step(profiler, prefix, "plain_ppo.py", folder, 2_048)
                profilers[profiler] = prefix
            except (subprocess.CalledProcessError, KeyError) as error:
                err.print(f"{profiler} cannot take part here: {error}")
        for script in STEPS:
            samples: dict[str, list[tuple[float, float]]] = {profiler: [] for profiler in profilers}
            for number in range(ROUNDS):
                err.print(f"{script}: round {number + 1} of {ROUNDS}")
                running = [name for name in profilers if number < PEER_ROUNDS or name.startswith(("bare", "hotlap"))]
                for profiler in coin.sample(running, len(running)):
                    samples[profiler].append(seconds_per_step(profiler, profilers[profiler], script, folder, STEPS[script]))
            for profiler in profilers:
                if profiler == "bare":
                    continue
                for column, kind in enumerate(("time", "CPU time")):
                    pair = {p: [both[column] for both in samples[p]][: len(samples[profiler])] for p in ("bare", profiler)}
                    title = f"{script}: {profiler} / bare, {kind}"
                    results[title] = speedup(pair, profiler, "bare") | {"at_most": GOALS.get(profiler)}
    save("probe_cost", "python benchmarks/probe_cost.py", results)


if __name__ == "__main__":
    main()
