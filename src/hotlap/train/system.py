"""A complete RL set-up, as `hotlap train` and `hotlap profile` run it. Describing one imports neither torch nor gymnasium."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class RLSystem:
    """Environment, network and trainer with presets."""

    name: str
    summary: str
    algorithm: str
    trainer_module: str  # of its algorithm: start, iterate, evaluate, save_state, load_state
    presets: dict[str, Any]
    preset_notes: dict[str, str]
    make_env: Callable[..., Any]  # (config, num_envs=None) -> VectorEnv
    score: str  # the metric of an episode that says how well it was played
    kernel: bool = False  # whether its environment has a compiled kernel, so that --turbo is possible

    @cached_property
    def trainer(self) -> Any:
        """The trainer's module. Imports torch."""
        return import_module(self.trainer_module)
