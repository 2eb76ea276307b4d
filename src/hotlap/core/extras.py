"""What `hotlap[train]` brings. Without it scripts are profiled, compared and investigated; systems and trainers need it."""

from __future__ import annotations

from importlib.util import find_spec

from hotlap.core.errors import UsageError

_TRAIN = ("cloudpickle", "gymnasium", "safetensors", "tensorboard", "torch")


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """How to install what is missing, if an extra brings it."""
    package = (error.name or "").partition(".")[0]
    return _message(package) if package in _TRAIN else None


def demand_training(system: str) -> None:
    """A system can only run with all of it. Nothing is imported."""
    if package := next((package for package in _TRAIN if find_spec(package) is None), None):
        raise UsageError(f"{system}: {_message(package)}")


def _message(package: str) -> str:
    return f"this needs {package}: pip install 'hotlap[train]'"
