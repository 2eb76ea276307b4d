"""Checkpoints: one safetensors file of arrays with a manifest in its metadata. Written atomically, no pickle.

The manifest says what the checkpoint is of (system, algorithm, config, the environment's declaration), where training was
(numbers), and of every array its type, shape and checksum; it has a checksum of its own. `load` refuses a file of which any of
that is not so, and `check_fits` one that belongs to another run, before anything of this run is changed.
"""

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from hotlap.core.errors import RecordError
from hotlap.core.text import one_line
from hotlap.core.version import __version__
from hotlap.envs.spec import Bound, EnvSpec
from hotlap.record import codec

SCHEMA = "hotlap.checkpoint/2"
NAME = "checkpoint.safetensors"
DTYPES = {  # safetensors' names of the types that hotlap saves
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """What was trained, and how."""

    system: str
    algorithm: str
    config: dict[str, Any]
    spec: EnvSpec


@dataclass(frozen=True)
class ArrayEntry:
    """What the manifest says of an array; the checksum is SHA-256 of its bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    checksum: str

    @classmethod
    def of(cls, array: NDArray[Any]) -> "ArrayEntry":
        return cls(DTYPES[array.dtype.name], array.shape, _checksum(array.reshape(-1).view(np.uint8)))


@dataclass(frozen=True)
class _Manifest:
    """As it is in JSON; `spec` is the EnvSpec with null for bounds that are infinite."""

    hotlap: str
    system: str
    algorithm: str
    config: dict[str, Any]
    spec: dict[str, Any]
    numbers: dict[str, int | float]
    arrays: dict[str, ArrayEntry]


@dataclass(frozen=True)
class Checkpoint:
    """What `load` read and checked."""

    path: Path
    source: Source
    numbers: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    version: str  # of hotlap, which wrote it


# -- writing --


def save(folder: Path, arrays: Arrays, numbers: dict[str, Any], source: Source) -> Path:
    """Replace the checkpoint of a run; the old one stays until the new one is complete."""
    path = folder / NAME
    in_order = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    entries = {name: ArrayEntry.of(array) for name, array in in_order.items()}
    manifest = _Manifest(
        __version__, source.system, source.algorithm, source.config, codec.to_json(source.spec), numbers, entries
    )
    text = json.dumps(codec.to_json(manifest), allow_nan=False)
    metadata = {"schema": SCHEMA, "manifest": text, "checksum": _checksum(text.encode())}
    try:
        for left in folder.glob(".checkpoint.*"):  # by a kill in the middle of a save
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".checkpoint.") as scratch:
            part = Path(scratch) / NAME
            save_file(in_order, part, metadata)
            part.chmod(0o644)
            part.replace(path)
    except (OSError, SafetensorError) as error:
        kept = "; the checkpoint before it is kept" if path.is_file() else ""
        raise RecordError(f"cannot write {path}: {error}{kept}") from error
    return path


def _checksum(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()


# -- reading --


def load(folder: Path) -> Checkpoint:
    """A run's checkpoint: complete, undamaged, and all that its manifest says."""
    return load_file(folder / NAME)


def load_file(path: Path) -> Checkpoint:
    """See `load`."""
    if not path.is_file():
        raise RecordError(f"{path} is not a checkpoint: {'a folder' if path.is_dir() else 'no such file'}")
    try:
        with safe_open(path, "numpy") as file:
            manifest = _read_manifest(path, file.metadata() or {})
            if sorted(file.keys()) != sorted(manifest.arrays):
                odd = sorted(set(file.keys()) ^ set(manifest.arrays))
                raise RecordError(f"{path} is damaged: its manifest and its arrays differ in {_some(odd)}")
            arrays = {name: _read_array(path, file, name, entry) for name, entry in manifest.arrays.items()}
    except (OSError, SafetensorError, ValueError) as error:
        raise RecordError(f"{path} is damaged: {one_line(str(error), 200)}") from error
    source = Source(manifest.system, manifest.algorithm, manifest.config, _spec_from_json(manifest.spec, path))
    return Checkpoint(path, source, dict(manifest.numbers), arrays, manifest.hotlap)


def _read_manifest(path: Path, metadata: dict[str, str]) -> _Manifest:
    schema = metadata.get("schema")
    if schema != SCHEMA:
        made = "is no checkpoint of hotlap" if schema is None else f"has schema {schema[:80]!r}"
        raise RecordError(f"{path} {made}; this version of hotlap reads {SCHEMA!r}: train anew")
    if set(metadata) != {"schema", "manifest", "checksum"}:
        raise RecordError(f"{path} is damaged: its metadata must be schema, manifest and checksum")
    if _checksum(metadata["manifest"].encode()) != metadata["checksum"]:
        raise RecordError(f"{path} is damaged: the checksum of its manifest is wrong")
    return codec.from_json(_Manifest, codec.loads(metadata["manifest"], str(path)), path)


def _read_array(path: Path, file: Any, name: str, entry: ArrayEntry) -> NDArray[Any]:
    header = file.get_slice(name)  # reads nothing yet
    if entry.dtype not in DTYPES.values() or header.get_dtype() != entry.dtype or tuple(header.get_shape()) != entry.shape:
        raise RecordError(f"{path} is damaged: array {name!r} is not {entry.dtype} of shape {entry.shape}")
    array: NDArray[Any] = file.get_tensor(name)
    if ArrayEntry.of(array) != entry:
        raise RecordError(f"{path} is damaged: the checksum of array {name!r} is wrong")
    return array


@dataclass(frozen=True)
class _Bounds:
    """Bounds of an EnvSpec in JSON, which has no infinity: null."""

    obs_low: float | tuple[float | None, ...] | None
    obs_high: float | tuple[float | None, ...] | None
    action_low: float | tuple[float | None, ...] | None
    action_high: float | tuple[float | None, ...] | None


def _spec_from_json(document: dict[str, Any], path: Path) -> EnvSpec:
    saved = codec.from_json(_Bounds, document, path)
    rest = {name: value for name, value in document.items() if name not in {field.name for field in fields(_Bounds)}}
    try:
        for dtype in (rest.get("obs_dtype", ""), *(table.get("dtype", "") for table in rest.get("tables", ()))):
            np.dtype(dtype)
    except (TypeError, AttributeError) as error:
        raise RecordError(f"{path} is damaged: its environment's types: {one_line(str(error), 200)}") from None
    spec = codec.from_json(EnvSpec, rest, path)
    return replace(
        spec,
        obs_low=_bound(saved.obs_low, -math.inf),
        obs_high=_bound(saved.obs_high, math.inf),
        action_low=_bound(saved.action_low, -math.inf),
        action_high=_bound(saved.action_high, math.inf),
    )


def _bound(saved: float | tuple[float | None, ...] | None, infinite: float) -> Bound:
    if isinstance(saved, tuple):
        return tuple(infinite if number is None else number for number in saved)
    return infinite if saved is None else saved


# -- whether it fits --


def check_source(found: Checkpoint, source: Source, may_change: frozenset[str]) -> None:
    """Refuse a checkpoint of another system, algorithm, config or environment."""
    for what in ("system", "algorithm"):
        saved, asked = getattr(found.source, what), getattr(source, what)
        if saved != asked:
            raise RecordError(f"{found.path} is of the {what} {saved}, not {asked}")
    asked = json.loads(json.dumps(codec.to_json(source.config)))  # as the saved one looks: lists for tuples
    names = {*asked, *found.source.config} - may_change
    changed = sorted(name for name in names if not _same(found.source.config, asked, name))
    if changed:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        raise RecordError(f"a run cannot be resumed with another {flags}; start a new one")
    saved_spec, spec = found.source.spec, source.spec
    changed = [field.name for field in fields(EnvSpec) if getattr(saved_spec, field.name) != getattr(spec, field.name)]
    if changed:
        raise RecordError(f"{found.path} is of an environment with another {_some(changed)}")


def _same(saved: dict[str, Any], asked: dict[str, Any], name: str) -> bool:
    if name not in saved or name not in asked:
        return False
    return bool(saved[name] == asked[name]) and isinstance(saved[name], bool) == isinstance(asked[name], bool)


@dataclass(frozen=True)
class Varying:
    """Of a trainer's arrays: how the names of those begin that need not be as they were at the start."""

    rows: tuple[str, ...] = ()  # may have another number of rows: what fills up
    numbered: tuple[str, ...] = ()  # there may be another number of them, counted from 0 at the end of their names


def check_fits(found: Checkpoint, arrays: Arrays, fresh: Arrays, numbers: dict[str, Any], varying: Varying) -> None:
    """Refuse what cannot be put into a run whose `save_state` gave the arrays `fresh` and these numbers when it started.

    `arrays` are those of the checkpoint for this process.
    """
    expected = _expected(arrays, fresh, varying)
    missing = sorted(expected.keys() - arrays.keys())
    unknown = sorted(arrays.keys() - expected.keys())
    if missing or unknown:
        problem = f"it has no {_some(missing)}" if missing else f"it has {_some(unknown)}, which this run has not"
        raise RecordError(f"{found.path} does not fit this run: {problem}")
    for name, like in expected.items():
        array = arrays[name]
        skip = 1 if name.startswith(varying.rows) and like.ndim else 0
        if array.dtype != like.dtype or array.ndim != like.ndim or array.shape[skip:] != like.shape[skip:]:
            saved, wanted = (f"{each.dtype} of shape {each.shape}" for each in (array, like))
            raise RecordError(f"{found.path} does not fit this run: array {name!r} is {saved}, not {wanted}")
    for prefix in varying.rows:
        if len({len(array) for name, array in arrays.items() if name.startswith(prefix) and array.ndim}) > 1:
            raise RecordError(f"{found.path} does not fit this run: its arrays {prefix}* differ in their number of rows")
    if set(found.numbers) != set(numbers):
        raise RecordError(f"{found.path} does not fit this run: its numbers must be {', '.join(sorted(numbers))}")
    for name, value in found.numbers.items():
        if type(value) is not type(numbers[name]) or value < 0:
            raise RecordError(f"{found.path} does not fit this run: {name} is {value}")


def _expected(arrays: Arrays, fresh: Arrays, varying: Varying) -> dict[str, NDArray[Any]]:
    """The arrays that a run should find: those of its start, but as many of the numbered ones as were saved."""
    expected = {name: array for name, array in fresh.items() if not name.startswith(varying.numbered)}
    for prefix in varying.numbered:
        if first := sorted(name for name in fresh if name.startswith(prefix)):
            digits = len(first[0]) - len(prefix)
            count = max(1, sum(name.startswith(prefix) for name in arrays))
            expected |= {f"{prefix}{i:0{digits}}": fresh[first[0]] for i in range(count)}
    return expected


def part_of(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays of a checkpoint whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def tensors_of(arrays: Arrays, device: torch.device, prefix: str) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)).to(device) for name, array in part_of(arrays, prefix).items()}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(name[:60] for name in names[:3]) + more
