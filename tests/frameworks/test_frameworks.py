"""`hotlap profile` on real scripts of real frameworks, unchanged. `make frameworks` installs them; without them this skips."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PPO = {"collect/act", "collect/env_step", "advantage", "update/loss", "update/backward", "update/optimizer"}
DQN = {"collect/act", "collect/env_step", "collect/store", "sample", "update/loss", "update/backward", "update/optimizer"}
REMOTE = {"collect/wait", "advantage", "update/loss", "update/backward", "update/optimizer"}
POLICY_GRADIENT = {"collect/act", "collect/env_step", "update/backward", "update/optimizer"}

# package, script, arguments, stages that must be there, worker processes
SUBJECTS = [
    ("torchrl", "torchrl_ppo", ["6144", "single"], PPO, 0),
    ("torchrl", "torchrl_ppo", ["6144", "serial"], PPO, 0),
    ("torchrl", "torchrl_ppo", ["4096", "subproc"], PPO | {"collect/wait"}, 2),
    ("torchrl", "torchrl_dqn", ["3000"], DQN | {"update/target"}, 0),
    ("ray", "rllib_ppo", ["8", "single"], PPO, 0),
    ("ray", "rllib_ppo", ["10", "serial"], PPO, 0),
    ("ray", "rllib_ppo", ["8", "subproc"], REMOTE, 2),
    ("ray", "rllib_remote", ["8", "learner"], REMOTE, 2),
    ("ray", "rllib_remote", ["8", "trial"], PPO, 0),
    ("ray", "rllib_dqn", ["6"], DQN, 0),
    ("tianshou", "tianshou_ppo", ["6144", "single"], PPO, 0),
    ("tianshou", "tianshou_ppo", ["6144", "serial"], PPO, 0),
    ("tianshou", "tianshou_ppo", ["6144", "subproc"], PPO | {"collect/wait"}, 2),
    ("tianshou", "tianshou_dqn", ["4000"], DQN | {"evaluate"}, 0),
    ("skrl", "skrl_ppo", ["5000", "single"], PPO, 0),
    ("skrl", "skrl_ppo", ["5000", "serial"], PPO, 0),
    ("skrl", "skrl_ppo", ["5000", "subproc"], PPO | {"collect/wait"}, 2),
    ("skrl", "skrl_dqn", ["5000"], DQN | {"update/target"}, 0),
    ("pettingzoo", "pettingzoo_ppo", ["6000"], POLICY_GRADIENT, 0),
    ("pettingzoo", "pettingzoo_aec", ["10000"], POLICY_GRADIENT, 0),
    ("pufferlib", "puffer_ppo", ["20480", "serial"], POLICY_GRADIENT, 0),
    ("pufferlib", "puffer_ppo", ["2048", "multiprocessing"], POLICY_GRADIENT | {"collect/wait"}, 2),
]
UNCHANGED = {"single", "3000"}  # compared with a run without hotlap: one subject of each kind


def run(folder, *command):
    environment = {
        **os.environ,
        "RESULT": str(folder / "result.json"),
        "RAY_TMPDIR": os.environ.get("RAY_TMPDIR", "/tmp"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr[-4_000:]
    return result.stdout, json.loads((folder / "result.json").read_text())


@pytest.mark.parametrize(
    ("package", "script", "arguments", "present", "workers"), SUBJECTS, ids=[f"{s[1]}-{'-'.join(s[2])}" for s in SUBJECTS]
)
def test_a_framework_unchanged(package, script, arguments, present, workers, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    path = str(HERE / f"{script}.py")
    flags = ["--iterations", "1000000", "--warmup", "0", "--json", "--", *arguments]
    output, probed = run(tmp_path, "-m", "hotlap", "profile", path, *flags)
    doc = json.loads(output)
    assert doc["counts"]["env_steps"] == probed["env_steps"] + probed.get("prefill_steps", 0)
    if "updates" in probed:
        assert doc["counts"]["updates"] == probed["updates"]
    if script == "rllib_remote":
        assert {learner["kind"] for learner in doc["learners"]["each"].values()} == {"ray"}
    assert present <= doc["stages"].keys()
    assert doc["unattributed"] <= 0.05
    assert not [warning for warning in doc["warnings"] if "adapter" in warning]
    assert (doc["workers"]["count"] if doc["workers"] else 0) == workers
    if UNCHANGED & set(arguments):
        _, bare = run(tmp_path, path, *arguments)
        assert bare == probed  # same seed, same steps, same weights
