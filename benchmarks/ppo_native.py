"""hotlap's PPO on the native CartPole with 4,096 environments against PufferLib 3.0, and against its recipe in plain torch.

    python benchmarks/ppo_native.py [--puffer PYTHON]

PYTHON is an interpreter that has PufferLib 3.0 with its CartPole built (it does not install from PyPI alone). Each contender
runs in fresh processes, interleaved, with two threads: one epoch of eight minibatches of 32,768 over 262,144 steps, a network
of 1,027 parameters, or with LSTM cells of 133,123. Episodes of the native CartPole may last 500 steps, of PufferLib's 200.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import err, save, speedup

SCRIPTS = Path(__file__).with_name("scripts")
STEPS = {"mlp": 262_144 * 20, "lstm": 262_144 * 6}
ROUNDS, GOAL = 5, 1.5


def run(python: str, script: str, kind: str) -> dict[str, Any]:
    command = [python, str(SCRIPTS / script), kind, str(STEPS[kind])]
    with tempfile.TemporaryDirectory() as scratch:  # PufferLib leaves things where it runs
        finished = subprocess.run(command, capture_output=True, text=True, cwd=scratch, check=False)
    if finished.returncode:
        raise SystemExit(f"{script} failed:\n{finished.stderr[-2000:]}")
    words = [line.split() for line in finished.stdout.splitlines()]
    curve = [[float(number) for number in line[1:]] for line in words if line and line[0] == "curve"]
    numbers = {line[0]: float(line[1]) for line in words if len(line) == 2}
    return {"rate": numbers["steps_per_s"], "parameters": numbers["parameters"], "curve": curve}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puffer", metavar="PYTHON")
    puffer = parser.parse_args().puffer
    contenders = {"hotlap": (sys.executable, "native_hotlap.py"), "plain torch": (sys.executable, "native_plain.py")}
    if puffer:
        contenders["PufferLib 3.0"] = (puffer, "native_puffer.py")
    coin = random.Random(0)
    results: dict[str, Any] = {}
    for kind in STEPS:
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        curves: dict[str, Any] = {}
        for number in range(ROUNDS):
            for name in coin.sample(list(contenders), len(contenders)):
                err.print(f"{kind}: round {number + 1} of {ROUNDS}, {name}")
                result = run(*contenders[name], kind)
                samples[name].append(1 / result["rate"])
                curves[name] = {"steps, seconds, episode length": result["curve"], "parameters": result["parameters"]}
        for name in list(contenders)[1:]:
            pair = {key: samples[key] for key in (name, "hotlap")}
            extra = {"goal": GOAL, "curves": {key: curves[key] for key in pair}}
            results[f"{kind}: hotlap against {name}"] = speedup(pair, name, "hotlap") | extra
    save("ppo_native", "python benchmarks/ppo_native.py --puffer PYTHON", results)


if __name__ == "__main__":
    main()
