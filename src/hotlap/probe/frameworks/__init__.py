"""One file per framework: everything that hotlap knows about it. Others are found as plugins (`plugins.py`)."""

from __future__ import annotations

from hotlap.probe.framework import Framework
from hotlap.probe.frameworks import pettingzoo, plugins, pufferlib, rllib, sb3, skrl, tianshou, torchrl
from hotlap.probe.hooks.gymnasium import GYM, GYMNASIUM

BUILT_IN: tuple[Framework, ...] = (
    GYMNASIUM,
    GYM,
    *(file.FRAMEWORK for file in (pettingzoo, pufferlib, rllib, sb3, skrl, tianshou, torchrl)),
)


def frameworks() -> tuple[Framework, ...]:
    """Those that hotlap knows, and those of plugins."""
    return (*BUILT_IN, *plugins.load())
