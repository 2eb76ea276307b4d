"""Training logs to the real Weights & Biases, offline."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("wandb")


def test_train_logs_to_weights_and_biases(tmp_path):
    command = [sys.executable, "-m", "hotlap", "train", "CartPole-v1", "--turbo", "--total-steps", "3000", "--out", "run"]
    command += ["--evaluation-episodes", "2", "--wandb", "hotlap-test"]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    assert b"train/policy_loss" in kept.read_bytes()
