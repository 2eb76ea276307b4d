"""How environments run and what is around them: in one process, in workers, without wrappers, without infos."""

from contextlib import AbstractContextManager
from typing import Any

from hotlap.interventions.changing import Change, for_each_class, when_imported


def one_process() -> AbstractContextManager[Change]:
    """Vectors of worker processes step in one process instead."""

    def sb3(module: Any, change: Change) -> None:
        class SubprocVecEnv(module.DummyVecEnv):  # type: ignore[misc]
            def __init__(self, env_fns: Any, start_method: Any = None) -> None:
                change.took()
                super().__init__(env_fns)

        change.set(module, "SubprocVecEnv", SubprocVecEnv)

    def gymnasium(module: Any, change: Change) -> None:
        kind = module.SyncVectorEnv

        class AsyncVectorEnv(kind):  # type: ignore[misc,valid-type]
            def __init__(self, env_fns: Any, *_: Any, **kwargs: Any) -> None:
                change.took()
                known = {name: kwargs[name] for name in ("copy", "observation_mode", "autoreset_mode") if name in kwargs}
                super().__init__(env_fns, **known)

        change.set(module, "AsyncVectorEnv", AsyncVectorEnv)

    def torchrl(module: Any, change: Change) -> None:
        change.set(module, "ParallelEnv", module.SerialEnv)
        change.took()

    return when_imported({"stable_baselines3.common.vec_env": sb3, "gymnasium.vector": gymnasium, "torchrl.envs": torchrl})


def worker_processes() -> AbstractContextManager[Change]:
    """Vectors of one process step in worker processes instead, one per environment."""

    def sb3(module: Any, change: Change) -> None:
        serial = module.DummyVecEnv

        class DummyVecEnv(module.SubprocVecEnv):  # type: ignore[misc]
            def __new__(cls, env_fns: Any) -> Any:
                return serial(env_fns) if len(env_fns) == 1 else super().__new__(cls)

            def __init__(self, env_fns: Any) -> None:
                change.took()
                super().__init__(env_fns, start_method="fork")

        change.set(module, "DummyVecEnv", DummyVecEnv)

    def gymnasium(module: Any, change: Change) -> None:
        kind = module.AsyncVectorEnv

        class SyncVectorEnv(kind):  # type: ignore[misc,valid-type]
            def __init__(self, env_fns: Any, **kwargs: Any) -> None:
                change.took()
                known = {name: kwargs[name] for name in ("copy", "observation_mode", "autoreset_mode") if name in kwargs}
                super().__init__(env_fns, context="fork", **known)

        change.set(module, "SyncVectorEnv", SyncVectorEnv)

    def torchrl(module: Any, change: Change) -> None:
        change.set(module, "SerialEnv", module.ParallelEnv)
        change.took()

    return when_imported({"stable_baselines3.common.vec_env": sb3, "gymnasium.vector": gymnasium, "torchrl.envs": torchrl})


def infos_empty() -> AbstractContextManager[Change]:
    """Environments tell nothing but what the trainer needs: infos are empty, except at the end of an episode."""

    def patch(module: Any, change: Change) -> None:
        def alter(cls: Any) -> None:
            if "step" in cls.__dict__:
                step = cls.__dict__["step"]

                def without_info(self: Any, action: Any) -> Any:
                    *rest, info = step(self, action)
                    return (*rest, info if any(rest[2:]) else {})

                cls.step = change.noted(without_info)

        for_each_class(module.Env, change, alter)

    return when_imported({"gymnasium": patch})


def peel(names: list[str]) -> AbstractContextManager[Change]:
    """Wrappers of these names are left away: making one gives what it would wrap."""

    def patch(module: Any, change: Change) -> None:
        def new(cls: Any, env: Any, *_: Any, **__: Any) -> Any:
            change.took()
            return env  # no instance of the class, so Python does not initialise it

        def alter(cls: Any) -> None:
            if cls.__name__ in names:
                cls.__new__ = new

        for_each_class(module.Wrapper, change, alter)

    return when_imported({"gymnasium": patch})
