"""The systems: each is an environment, a network and a trainer with presets, in a file of its own."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hotlap.core.errors import UsageError

NAMES = ("snake",)


@dataclass(frozen=True)
class System:
    """A complete RL set-up. `trainer` is the module of its algorithm: start, iterate, evaluate, save_state, load_state."""

    name: str
    summary: str
    algorithm: str
    trainer: Any
    presets: dict[str, Any]
    preset_notes: dict[str, str]
    make_env: Callable[..., Any]  # (config, num_envs=None) -> VectorEnv
    score: str  # the metric of an episode that says how well it was played


def load(name: str, algorithm: str | None = None) -> System:
    """A system by name, or a Gymnasium environment with an algorithm. Imports torch, so who only needs names uses NAMES."""
    if name not in NAMES:
        from hotlap.systems.gym import gym_system

        return gym_system(name, algorithm or "ppo")
    found: System = import_module(f"hotlap.systems.{name}").SYSTEM
    return found


def has_kernel(name: str) -> bool:
    """Whether hotlap has the environment compiled, so that --turbo is possible."""
    from hotlap.systems.gym import KERNELS

    return name in NAMES or name in KERNELS


def is_known(name: str) -> bool:
    """Whether this names a system, a registered Gymnasium environment (`module:Name-v0` imports the module first), or a game
    of PettingZoo."""
    if name in NAMES:
        return True
    import gymnasium

    from hotlap.envs.pettingzoo import PREFIX

    module, colon, registered = name.partition(":")
    if colon and module.replace(".", "").isidentifier():
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)  # a module that lies beside the user
        try:
            import_module(module)
        except ImportError as error:
            raise UsageError(f"{name}: {error}") from None
        name = registered
    return name in gymnasium.registry or name.startswith(PREFIX)
