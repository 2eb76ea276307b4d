"""How environments run and what is around them: in one process, in workers, without wrappers, without infos."""

from __future__ import annotations

from typing import Any

from hotlap.interventions.changing import Change
from hotlap.probe.framework import VectorLayout
from hotlap.probe.frameworks import frameworks

LAYOUTS = tuple(layout for framework in frameworks() for layout in framework.layouts if layout.swappable)
TO_ONE_PROCESS = {layout.workers: layout.one_process for layout in LAYOUTS}
TO_WORKERS = {layout.one_process: layout.workers for layout in LAYOUTS}


def one_process(change: Change) -> None:
    """Vectors of worker processes step in one process instead."""
    for layout in LAYOUTS:
        change.when_imported(layout.module, lambda module, layout=layout: _to_serial(change, module, layout))  # type: ignore[misc]


def _to_serial(change: Change, module: Any, layout: VectorLayout) -> None:
    serial = getattr(module, layout.one_process)
    if layout.kept is None:
        change.set(module, layout.workers, serial)
        change.applied()
        return

    class Vector(serial):  # type: ignore[misc,valid-type]
        def __init__(self, env_fns: Any, *_: Any, **kwargs: Any) -> None:
            change.applied()
            super().__init__(env_fns, **{name: kwargs[name] for name in layout.kept or () if name in kwargs})

    change.set(module, layout.workers, _named(Vector, layout.workers))


def worker_processes(change: Change) -> None:
    """Vectors of one process step in worker processes instead, one per environment; a single environment stays as it is."""
    for layout in LAYOUTS:
        change.when_imported(layout.module, lambda module, layout=layout: _to_parallel(change, module, layout))  # type: ignore[misc]


def _to_parallel(change: Change, module: Any, layout: VectorLayout) -> None:
    serial, parallel = getattr(module, layout.one_process), getattr(module, layout.workers)
    if layout.kept is None:
        change.set(module, layout.one_process, parallel)
        change.applied()
        return

    class Vector(parallel):  # type: ignore[misc,valid-type]
        def __new__(cls, env_fns: Any, **kwargs: Any) -> Any:
            return serial(env_fns, **kwargs) if len(env_fns) == 1 else super().__new__(cls)

        def __init__(self, env_fns: Any, **kwargs: Any) -> None:
            change.applied()
            known = {name: kwargs[name] for name in layout.kept or () if name in kwargs}
            super().__init__(env_fns, **known, **layout.start)

    change.set(module, layout.one_process, _named(Vector, layout.one_process))


def _named(cls: Any, name: str) -> Any:
    cls.__name__ = cls.__qualname__ = name
    return cls


def infos_empty(change: Change) -> None:
    """Environments tell nothing but what the trainer needs: infos are empty, except at the end of an episode."""

    def alter(cls: Any) -> None:
        if "step" in cls.__dict__:
            step = cls.__dict__["step"]

            def without_info(self: Any, action: Any) -> Any:
                *rest, info = step(self, action)
                return (*rest, info if any(rest[2:]) else {})

            change.replace(cls, "step", without_info)

    change.when_imported("gymnasium", lambda module: change.for_each_subclass(module.Env, alter))


def peel(change: Change, names: list[str]) -> None:
    """Wrappers of these names do nothing: their steps and resets are those of what they wrap.

    Replacing `__new__` would be simpler, but a class that ever had its `__new__` set and deleted cannot be made any more.
    """

    def patch(module: Any) -> None:
        def init(self: Any, env: Any, *_: Any, **__: Any) -> None:
            change.applied()
            module.Wrapper.__init__(self, env)
            self.step, self.reset, self.render = env.step, env.reset, env.render

        def alter(cls: Any) -> None:
            if cls.__name__ in names:
                change.set(cls, "__init__", init)

        change.for_each_subclass(module.Wrapper, alter)

    change.when_imported("gymnasium", patch)
