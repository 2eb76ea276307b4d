"""hotlap on public training code, unchanged, each script in an environment with the versions that its project pins.

    python benchmarks/public.py CHECKOUTS ENVIRONMENTS [--only NAME ...] [--out RUNS]

CHECKOUTS holds the repositories under the names in `CASES`, ENVIRONMENTS their virtual environments (docs/public.md says how
both are made; nothing of them is part of hotlap). Each script runs in a copy of its checkout until it ends by itself, shortened
by its own flags or its own configuration file. Kept in `results/public.json`: steps as hotlap and as the script counted them,
`unattributed`, the exit code, the findings, and the versions.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from side_by_side import keep

from hotlap import causes
from hotlap.record.codec import to_json
from hotlap.record.lines import BARE
from hotlap.record.run import Run, load

HOTLAP = [sys.executable, "-m", "hotlap"]
SHORTEST = 1_000_000  # seconds: a script ends by itself
VERSIONS = """
import importlib.metadata as metadata, json, sys
names = {"torch", "numpy", "gymnasium", "gym", "ray", "torchrl", "mujoco"}
found = {name: d.version for d in metadata.distributions() if (name := (d.metadata["Name"] or "").lower()) in names}
print(json.dumps({"python": sys.version.split()[0], **found}))
"""
CALLED = """
import pstats, sys
stats = pstats.Stats(sys.argv[1]).stats
print(sum(calls for (file, _, name), (_, calls, *_) in stats.items() if file.endswith(sys.argv[2]) and name == sys.argv[3]))
"""


@dataclass(frozen=True)
class Printed:
    """The script prints its count: the last match in its output."""

    pattern: str
    times: int = 1


@dataclass(frozen=True)
class Called:
    """The script keeps no count: calls of its environment's step in a run of its own, under cProfile."""

    file: str
    function: str
    times: int = 1


@dataclass(frozen=True)
class Case:
    checkout: str
    environment: str
    script: tuple[str, ...]  # or -m and a module
    arguments: tuple[str, ...] = ()
    steps: int | Printed | Called = 0  # a number follows from its flags
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # its configuration file: (text, other text)
    prefix: tuple[str, ...] = ()  # a command that makes the folders that its author's machine had


def _flags(**values: int) -> tuple[str, ...]:
    return tuple(word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value)))


def _cleanrl(script: str, **values: int) -> Case:
    steps = values["total_timesteps"]
    installed = {"PYTHONPATH": "{0}/cleanrl"}  # as `pip install -e .` would have it
    return Case("cleanrl", "py310-torch24", (f"cleanrl/{script}.py",), _flags(**values), steps, installed)


CAGE2_FOLDERS = (
    "mount -t tmpfs none /home && mkdir -p /home/ubuntu/CAGE2/-cyborg-cage-2 && ln -s {0}/cage-challenge-2 /home/ubuntu/CAGE2 "
    '&& exec "$@"'
)
CASES = {
    "cleanrl-ppo": _cleanrl("ppo", total_timesteps=8_192),
    "cleanrl-dqn": _cleanrl("dqn", total_timesteps=6_000, learning_starts=500),
    "cleanrl-c51": _cleanrl("c51", total_timesteps=4_000, learning_starts=500),
    "cleanrl-sac": _cleanrl("sac_continuous_action", total_timesteps=1_000, learning_starts=300),
    "cleanrl-td3": _cleanrl("td3_continuous_action", total_timesteps=1_500, learning_starts=300),
    "cleanrl-ppo-continuous": _cleanrl("ppo_continuous_action", total_timesteps=4_096, num_steps=1_024),
    "leanrl-ppo-continuous": Case(
        "leanrl",
        "py310-torch24",
        ("leanrl/ppo_continuous_action.py",),
        _flags(total_timesteps=6_144, num_steps=1_024),
        6_144,
        {"WANDB_MODE": "disabled"},
    ),
    "snake-rl-dqn": Case("snake-rl", "snake-rl", ("scripts/training/train_dqn.py",), steps=Printed(r"Buffer: (\d+)/")),
    "snake-rl-ppo": Case(
        "snake-rl", "snake-rl", ("scripts/training/train_ppo.py",), steps=Called("environment_vectorized.py", "step", 256)
    ),
    "ct-ppo": Case(
        "ct",
        "ct",
        ("-m", "solutions.A.ppo_trainer"),
        ("--device", "cascade"),
        Printed(r"env steps: (\d+)"),
        settings={"config/training/s_train.yaml": ("total_batch: 80", "total_batch: 4")},
    ),
    "hearts-rllib": Case(
        "hearts",
        "hearts",
        ("main_self_play.py",),
        ("--iterations", "1", "--no-wandb"),
        Printed(r"num_env_steps_sampled[a-z_]*'?:? +(\d+)"),
        {"RAY_OVERRIDE_RESOURCES": '{"CPU": 8}'},  # it asks for eight cores
    ),
    "cage2-baseline": Case(
        "cage2",
        "py39-torch113",
        ("train_parallel_baseline.py",),
        _flags(n_workers=2, total_episodes=12, episodes_per_update=4),
        1_200,  # a hundred of each episode
        {"PYTHONPATH": "{0}/cage-challenge-2/CybORG"},
        prefix=("unshare", "--mount", "sh", "-c", CAGE2_FOLDERS, "sh"),
    ),
}


def run(name: str, case: Case, checkouts: Path, environments: Path, folder: Path) -> dict[str, Any]:
    python = str(environments / case.environment / "bin" / "python")
    place = folder / name
    shutil.rmtree(place, ignore_errors=True)
    project = place / case.checkout
    shutil.copytree(checkouts / case.checkout, project, ignore=shutil.ignore_patterns("docs", "wandb", "*.gif", "*.png"))
    for file, (text, other) in case.settings.items():
        path = project / file
        path.write_text(path.read_text().replace(text, other))
    variables = {**os.environ, **{key: value.replace("{0}", str(checkouts)) for key, value in case.variables.items()}}
    prefix = [word.replace("{0}", str(checkouts)) for word in case.prefix]
    record = place / "run"
    flags = ["--seconds", str(SHORTEST), "--warmup", "0", "--out", str(record), "--json"]
    profile = [*HOTLAP, "profile", *case.script, "--python", python, *flags]
    done = subprocess.run(
        [*prefix, *profile, "--", *case.arguments], cwd=project, env=variables, capture_output=True, text=True, check=False
    )
    (place / "output.txt").write_text(done.stderr)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{name}: hotlap ended with {done.returncode} and no document:\n{done.stderr[-2000:]}")
    document = json.loads(done.stdout)
    kept = load(record)
    findings = to_json(causes.diagnose(kept))["findings"]
    stages = {path: round(stage["share"], 4) for path, stage in document["stages"].items()}
    return {
        "script": " ".join(case.script),
        "arguments": list(case.arguments),
        "settings": {file: other for file, (_, other) in case.settings.items()},
        "variables": dict(case.variables),
        "versions": json.loads(_ask(python, VERSIONS)),
        "exit_code": done.returncode,
        "status": document["status"],
        "env_steps": document["counts"]["env_steps"],
        "own_steps": own_steps(case, python, project, done.stderr, variables),
        "updates": document["counts"]["updates"],
        "episodes": document["counts"]["episodes"],
        "unattributed": unattributed(kept),
        "stages": stages,
        "findings": [
            {"cause": finding["cause"], "evidence": finding["evidence"], "projected": finding["projected"]}
            for finding in findings
        ],
        "warnings": document["warnings"],
    }


def unattributed(kept: Run) -> float:
    """The share of no stage, from the second window on: the first one has the imports."""
    windows = [line.sample for line in kept.lines[1:] if line.phase != BARE]
    wall = sum(sample.wall for sample in windows)
    return round(1 - sum(sum(sample.exclusive.values()) for sample in windows) / wall, 4) if wall else 1.0


def own_steps(case: Case, python: str, project: Path, output: str, variables: Mapping[str, str]) -> int | None:
    """How many steps the script itself says it made."""
    if isinstance(case.steps, int):
        return case.steps
    if isinstance(case.steps, Printed):
        found = re.findall(case.steps.pattern, output)
        return int(found[-1]) * case.steps.times if found else None
    stats = project / "calls.pstats"
    command = [python, "-m", "cProfile", "-o", str(stats), *case.script, *case.arguments]
    subprocess.run(command, cwd=project, env=variables, stdout=subprocess.DEVNULL, check=True)
    return int(_ask(python, CALLED, str(stats), case.steps.file, case.steps.function)) * case.steps.times


def _ask(python: str, code: str, *arguments: str) -> str:
    asked = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return asked.stdout.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("environments", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--out", type=Path, help="keep copies, records and output here")
    args = parser.parse_args()
    folder = args.out or Path(tempfile.mkdtemp(prefix="hotlap-public-"))
    for name in args.only:
        row = run(name, CASES[name], args.checkouts.resolve(), args.environments.resolve(), folder.resolve())
        first = row["findings"][0]["cause"] if row["findings"] else "none"
        counted = f"{row['env_steps']:.0f} steps (its own count: {row['own_steps']})"
        ended = f"unattributed {row['unattributed']:.1%}, exit {row['exit_code']}, first: {first}"
        print(f"{name:<24} {counted}, {ended}", flush=True)
        keep("public", f"python benchmarks/public.py CHECKOUTS ENVIRONMENTS --only {name}", {name: row})


if __name__ == "__main__":
    main()
