"""The systems: each is an environment, a network and a trainer with presets, in a file of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    from importlib import import_module

    if name not in NAMES:
        from hotlap.systems.gym import gym_system

        return gym_system(name, algorithm or "ppo")
    found: System = import_module(f"hotlap.systems.{name}").SYSTEM
    return found


def is_known(name: str) -> bool:
    """Whether this names a system or a registered Gymnasium environment."""
    if name in NAMES:
        return True
    import gymnasium

    from hotlap.envs.pettingzoo import PREFIX

    return name in gymnasium.registry or name.startswith(PREFIX)
