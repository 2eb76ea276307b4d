"""Scripts of old and new environments under hotlap: `python benchmarks/interpreters.py PYTHON [PYTHON ...]`.

Each PYTHON is the interpreter of an environment with torch, gym or Gymnasium, and perhaps Stable-Baselines3, TorchRL or RLlib;
hotlap is not installed there. A plain PPO, a plain DQN, and PPO of those frameworks that are installed
(`benchmarks/interpreters/`) run alone, and under `hotlap profile` until they end. hotlap must count the environment steps that
the script counts itself, leave at most 5% of the time unattributed, find what it has to say (`hotlap diagnose`), and change no
bit of the weights. Results are added to results/interpreters.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "interpreters.json"
SCRIPTS = {
    "plain PPO": ("plain_ppo.py", 4096),
    "plain DQN": ("dqn.py", 6000),
    "SB3 PPO": ("sb3_ppo.py", 4096),
    "TorchRL PPO": ("torchrl_ppo.py", 4096),
    "RLlib PPO": ("rllib_ppo.py", 4096),
}
MOST_UNATTRIBUTED = 0.05


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=3600)


def own_words(text: str) -> dict[str, Any]:
    """What the script says about itself."""
    line = next((line for line in text.splitlines() if line.startswith('{"env_steps"')), "{}")
    words: dict[str, Any] = json.loads(line)
    return words


def hotlap(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "hotlap", *arguments, cwd=cwd)


def try_script(python: str, script: str, steps: int) -> dict[str, Any]:
    path = str(HERE / "interpreters" / script)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = run(python, path, str(steps), cwd=folder)
        if alone.returncode:
            return {"skipped": alone.stderr.strip().splitlines()[-1]}
        flags = ("--python", python, "--iterations", "100000", "--out", "run", "--json", "--", str(steps))
        profiled = hotlap("profile", path, *flags, cwd=folder)
        if profiled.returncode:
            return {"failed": profiled.stderr.strip().splitlines()[-1]}
        document, bare, probed = json.loads(profiled.stdout), own_words(alone.stdout), own_words(profiled.stderr)
        diagnosed = hotlap("diagnose", "run", "--json", cwd=folder)
    counted = document["counts"]["env_steps"]
    findings = json.loads(diagnosed.stdout)["findings"] if not diagnosed.returncode else []
    result = {
        "python": document["machine"]["python"],
        "versions": document["machine"]["versions"],
        "env_steps": {"script": probed["env_steps"], "hotlap": counted},
        "unattributed": document["unattributed"],
        "same_weights": bare["weights"] == probed["weights"],
        "findings": [finding["cause"] for finding in findings],
        "warnings": document["warnings"],
    }
    few = document["unattributed"] is not None and document["unattributed"] <= MOST_UNATTRIBUTED
    return {"passed": counted == probed["env_steps"] and result["same_weights"] and few and not diagnosed.returncode, **result}


def main() -> None:
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for python in sys.argv[1:]:
        environment = Path(python).parents[1].name
        for title, (script, steps) in SCRIPTS.items():
            rows.setdefault(environment, {})[title] = result = try_script(python, script, steps)
            print(environment, title, json.dumps({name: result[name] for name in result if name != "versions"}), flush=True)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    every = [result for results in rows.values() for result in results.values()]
    sys.exit(0 if all(result.get("passed") or "skipped" in result for result in every) else 1)


if __name__ == "__main__":
    main()
