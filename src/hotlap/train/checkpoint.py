"""Checkpoints: one safetensors file of arrays, with plain numbers as JSON in its metadata. Written atomically, no pickle."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file
from torch import Tensor

from hotlap.core.errors import RecordError

SCHEMA = "hotlap.checkpoint/1"
NAME = "checkpoint.safetensors"


def save(folder: Path, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any], config: dict[str, Any]) -> Path:
    """Replace the checkpoint of a run; the old one stays until the new one is complete."""
    path = folder / NAME
    metadata = {"schema": SCHEMA, "numbers": json.dumps(numbers), "config": json.dumps(config)}
    try:
        for left in folder.glob(".checkpoint.*"):  # by a kill in the middle of a save
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".checkpoint.") as scratch:
            part = Path(scratch) / NAME
            save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, part, metadata)
            part.chmod(0o644)
            part.replace(path)
    except (OSError, SafetensorError) as error:
        kept = "; the checkpoint before it is kept" if path.is_file() else ""
        raise RecordError(f"cannot write {path}: {error}{kept}") from error
    return path


def load(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, Any]]:
    """The arrays, the numbers and the config of a run's checkpoint."""
    path = folder / NAME
    try:
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
        arrays = load_file(path)
        if metadata.get("schema") != SCHEMA:
            raise RecordError(f"{path} has schema {metadata.get('schema')!r}; this version of hotlap reads {SCHEMA!r}")
        return arrays, json.loads(metadata["numbers"]), json.loads(metadata["config"])
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise RecordError(f"{path} is damaged: {error}") from error


def part_of(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays of a checkpoint whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def tensors_of(arrays: dict[str, NDArray[Any]], device: torch.device, prefix: str) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)).to(device) for name, array in part_of(arrays, prefix).items()}
