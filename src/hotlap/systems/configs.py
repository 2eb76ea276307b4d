"""Systems by the name that a user gives, and their configs: from plain data, from a saved run, checked against this machine."""

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from hotlap.core import native
from hotlap.core.errors import UsageError
from hotlap.core.text import one_line
from hotlap.record.header import Verb
from hotlap.record.run import load as load_run
from hotlap.systems import is_known, load, names
from hotlap.train.system import RLSystem

_RENAMED = {"minibatch": "batch_size"}  # fields of configs, by the names that older records have


def system(name: str, algorithm: str | None = None) -> RLSystem:
    """A system, or a Gymnasium environment, by name, with one of its algorithms."""
    if not is_known(name):
        known = f"{', '.join(names())}, a Gymnasium environment such as CartPole-v1 or my_module:MyEnv-v0"
        raise UsageError(f"unknown target {name!r}{nearest(name, names())}; targets: {known}")
    return load(name, algorithm)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that was mistyped."""
    close = get_close_matches(name, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def config_from(system: RLSystem, values: Mapping[str, Any]) -> Any:
    """A system's config from plain data, in which tuples are lists; also as older versions named its fields."""
    plain = {_RENAMED.get(name, name): tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return system.config_type(**plain)


def saved_algorithm(run: str) -> str | None:
    """How a run was trained, if its record says so."""
    algorithm = load_run(run).header.training.algorithm
    return algorithm.lower() if algorithm else None


def saved_config(system: RLSystem, resume: str) -> Any:
    """The config of a training run that is to be resumed."""
    saved = load_run(resume).header
    if saved.target != system.name or saved.verb is not Verb.TRAIN:
        raise UsageError(f"{resume} is a {saved.verb} run of {saved.target}, not a training run of {system.name}")
    if (algorithm := saved.training.algorithm) and algorithm != system.algorithm:
        raise UsageError(f"{resume} was trained with {algorithm}: leave out --algo {system.algorithm.lower()}")
    known = {field.name for field in dataclasses.fields(system.config_type)}
    unknown = sorted({_RENAMED.get(name, name) for name in saved.config} - known)
    if unknown:
        raise UsageError(f"{resume} was made by another version of hotlap: unknown config fields {', '.join(unknown)}")
    return config_from(system, saved.config)


def checked(config: Any) -> Any:
    """The config as this machine can run it: refused if its device cannot be used, without turbo if nothing can compile."""
    if config.turbo and native.compiler() is None:
        print(f"hotlap: {native.NO_COMPILER}; running the Python reference (--no-turbo)", file=sys.stderr)
        config = dataclasses.replace(config, turbo=False)
    if config.device != "cpu":
        check_device(config.device)
    return config


def check_device(device: str) -> None:
    """Refuse a device that this machine's torch cannot use."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = one_line(str(error).partition(chr(10))[0])
        advice = " (with --device cpu it trains on the CPU)" if device.startswith("cuda") else ""
        raise UsageError(f"device {device!r} cannot be used: {reason}{advice}") from None
