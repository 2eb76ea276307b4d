"""hotlap makes reinforcement-learning training fast, and proves it.

Names are loaded when first used, so `import hotlap` costs nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "compare_nets": "hotlap.experiment.networks",
    "make_vec": "hotlap.envs.vector",
    "load": "hotlap.record.run",
    "profile": "hotlap.probe.notebook",
    "StageClock": "hotlap.core.clock",
}
__all__ = ["StageClock", "__version__", "compare_nets", "load", "make_vec", "profile"]

if TYPE_CHECKING:
    from hotlap.core.clock import StageClock
    from hotlap.envs.vector import make_vec
    from hotlap.experiment.networks import compare_nets
    from hotlap.probe.notebook import profile
    from hotlap.record.run import load


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hotlap' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
