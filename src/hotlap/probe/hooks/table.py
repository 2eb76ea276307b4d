"""Which module gets which hooks: those that see any script, and those of the frameworks."""

from __future__ import annotations

from hotlap.probe.frameworks import frameworks
from hotlap.probe.hooks import checkpoints, logging, processes, torch
from hotlap.probe.hooks.patching import Patch


def patches() -> dict[str, list[Patch]]:
    table: dict[str, list[Patch]] = {}
    for hooks in (torch.PATCHES, checkpoints.PATCHES, logging.PATCHES, processes.PATCHES):
        for module, patch in hooks.items():
            table.setdefault(module, []).append(patch)
    for framework in frameworks():
        for module, patch in framework.patches():
            table.setdefault(module, []).append(patch)
    return table
