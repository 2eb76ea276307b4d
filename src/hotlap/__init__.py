"""hotlap makes reinforcement-learning training fast, and proves it.

Names are loaded when first used, so `import hotlap` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.core.version import __version__

_HOMES = {
    "compare_nets": "hotlap.notebook",
    "make_vec": "hotlap.envs.vector",
    "load": "hotlap.notebook",
    "load_policy": "hotlap.systems.policy",
    "profile": "hotlap.notebook",
    "StageClock": "hotlap.core.clock",
}
__all__ = ["StageClock", "__version__", "compare_nets", "load", "load_policy", "make_vec", "profile"]

if TYPE_CHECKING:
    from hotlap.core.clock import StageClock
    from hotlap.envs.vector import make_vec
    from hotlap.notebook import compare_nets, load, profile
    from hotlap.systems.policy import load_policy


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hotlap' has no attribute {name!r}")
    from importlib import import_module

    from hotlap.core.extras import missing_extra

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (message := missing_extra(error)) is None:
            raise
        raise ImportError(f"hotlap.{name}: {message}") from error
