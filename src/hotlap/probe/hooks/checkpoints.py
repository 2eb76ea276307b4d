"""Checkpoints: what saves state with NumPy, pickle or torch."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from hotlap.core import stages
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import Patch, as_region, wrap


def _saving(names: Sequence[str]) -> Patch:
    def patch(module: ModuleType, events: Events) -> None:
        for name in names:
            wrap(module, name, as_region(events, stages.CHECKPOINT))

    return patch


PATCHES: dict[str, Patch] = {
    "numpy": _saving(("save", "savez", "savez_compressed")),
    "pickle": _saving(("dump",)),
    "torch": _saving(("save",)),
}
