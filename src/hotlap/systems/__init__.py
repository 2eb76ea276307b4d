"""The systems: each is an environment, a network and a trainer with presets, in a file of its own.

Other packages add theirs by the entry point `hotlap.systems`, which gives an `RLSystem`.
"""

import sys
from importlib import import_module
from pathlib import Path

from hotlap.core import plugins
from hotlap.core.errors import UsageError
from hotlap.train.system import RLSystem

BUILT_IN = ("hearts", "snake", "connect4", "predators", "petri", "cage2", "mettagrid")


def names() -> tuple[str, ...]:
    """hotlap's own systems, and those of plugins."""
    return (*BUILT_IN, *(name for name in plugins.names(plugins.SYSTEMS) if name not in BUILT_IN))


def load(name: str, algorithm: str | None = None) -> RLSystem:
    """A system by name, or a Gymnasium environment, with one of its algorithms; without one, the first."""
    return _named(name).using(algorithm)


def _named(name: str) -> RLSystem:
    if name in BUILT_IN:
        system: RLSystem = import_module(f"hotlap.systems.{name}").SYSTEM
        return system
    if name not in names():
        from hotlap.systems.gym import gym_system

        return gym_system(name)
    added = plugins.load(plugins.SYSTEMS, RLSystem)
    if name not in added.objects:
        raise UsageError(next(problem for problem in added.problems if problem.startswith(f"plugin {name} ")))
    plugin: RLSystem = added.objects[name]
    return plugin


def every_system() -> tuple[list[RLSystem], tuple[str, ...]]:
    """All systems, and what is wrong with plugins that cannot be loaded, a line each."""
    added = plugins.load(plugins.SYSTEMS, RLSystem)
    return [load(name) for name in names() if name in BUILT_IN or name in added.objects], added.problems


def has_kernel(name: str) -> bool:
    """Whether hotlap has the environment compiled, so that --turbo is possible."""
    return load(name).kernel


def is_known(name: str) -> bool:
    """Whether this names a system, a registered Gymnasium environment (`module:Name-v0` imports the module first), or a game
    of PettingZoo."""
    if name in names():
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
