"""Switches of torch, of threads and of random numbers."""

from __future__ import annotations

import itertools
import numbers
import os
import random
import weakref
from typing import Any

from hotlap.interventions.changing import Change, nothing

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_CORES = "HOTLAP_ALL_CORES"  # environment variable: the cores that processes started by a pinned one may use


def threads(change: Change, number: int) -> None:
    """So many threads for torch and for what OpenMP runs, whatever the script says."""

    def patch(torch: Any) -> None:
        change.on_undo(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(number)
        change.set(torch, "set_num_threads", nothing)
        change.applied()

    for name in _THREADS:
        change.setenv(name, str(number))
    change.when_imported("torch", patch)


def affinity(change: Change, cores: list[int]) -> None:
    """On these of the cores that it may use, counted from 0; processes that it starts may use all of them."""
    inherited = os.environ.get(_CORES)
    before = os.sched_getaffinity(0)
    change.on_undo(os.sched_setaffinity, 0, before)
    if inherited:  # this is such a process
        os.sched_setaffinity(0, {int(core) for core in inherited.split(",")})
        return
    usable, fork = sorted(before), os.fork
    main = os.getpid()

    def unpinned_fork() -> int:
        pid = fork()
        if pid == 0 and os.getppid() == main:  # its own children are its own business
            os.sched_setaffinity(0, before)
        return pid

    change.setenv(_CORES, ",".join(map(str, usable)))
    change.set(os, "fork", unpinned_fork)  # a hook of os.register_at_fork would stay for good
    os.sched_setaffinity(0, {usable[core % len(usable)] for core in cores})
    change.applied()


def cv2_threads(change: Change, number: int = 0) -> None:
    """So many threads for OpenCV, whatever the script says."""

    def patch(cv2: Any) -> None:
        change.on_undo(cv2.setNumThreads, cv2.getNumThreads())
        cv2.setNumThreads(number)
        change.set(cv2, "setNumThreads", nothing)
        change.applied()

    change.when_imported("cv2", patch)


def validate_off(change: Change) -> None:
    """Distributions do not check their arguments."""

    def patch(module: Any) -> None:
        if module.Distribution._validate_args:
            change.applied()
        change.set(module.Distribution, "_validate_args", False)

    change.when_imported("torch.distributions.distribution", patch)


def anomaly_off(change: Change) -> None:
    """Autograd's debug mode stays off."""

    class Off:
        def __init__(self, *_: Any, **__: Any) -> None:
            change.applied()

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: Any) -> None:
            pass

    def patch(torch: Any) -> None:
        for name in ("set_detect_anomaly", "detect_anomaly"):
            change.set(torch.autograd, name, Off)

    change.when_imported("torch", patch)


def foreach(change: Change, fused: bool = False) -> None:
    """Optimizers update all tensors at once."""

    def patch(torch: Any) -> None:
        for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            change.replace(kind, "__init__", batched(kind.__init__))

    def batched(original: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **{**kwargs, "foreach": not fused, "fused": True if fused else None})

        return init

    change.when_imported("torch", patch)


def compiled(change: Change) -> None:
    """Networks are compiled when they first run: those that are no part of another."""
    inside: list[bool] = []
    networks: weakref.WeakSet[Any] = weakref.WeakSet()

    def patch(torch: Any) -> None:
        original = torch.nn.Module.__call__

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not inside and self._compiled_call_impl is None and any(True for _ in self.parameters()):
                self.compile()
                networks.add(self)
                change.applied()
            inside.append(True)
            try:
                return original(self, *args, **kwargs)
            finally:
                inside.pop()

        change.set(torch.nn.Module, "__call__", call)

    def uncompile() -> None:
        for network in networks:
            network._compiled_call_impl = None

    change.on_undo(uncompile)
    change.when_imported("torch", patch)


def compile_off(change: Change) -> None:
    """`torch.compile` gives back what it was given."""

    def identity(model: Any = None, **_: Any) -> Any:
        return (lambda function: function) if model is None else model

    def patch(torch: Any) -> None:
        change.replace(torch, "compile", identity)
        change.replace(torch.nn.Module, "compile", nothing)

    change.when_imported("torch", patch)


def seed(change: Change, offset: int) -> None:
    """Another seed: whatever the script seeds with, moved by an offset; and if it seeds nothing, the offset itself."""
    calls = itertools.count()

    def moved(original: Any, name: str = "seed") -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            value = args[0] if args else kwargs.pop(name, None)
            if value is None:
                value = offset + next(calls)  # no seed was given: another one each time, the same in every run
            elif isinstance(value, numbers.Integral):
                value = int(value) + offset
            return original(value, *args[1:], **kwargs)

        return call

    def numpy_random(module: Any) -> None:
        change.on_undo(module.set_state, module.get_state())
        module.seed(offset)
        change.replace(module, "seed", moved(module.seed))
        change.replace(module, "default_rng", moved(module.default_rng))

    def torch(module: Any) -> None:
        change.on_undo(module.set_rng_state, module.get_rng_state())
        if module.cuda.is_initialized():
            change.on_undo(module.cuda.set_rng_state_all, module.cuda.get_rng_state_all())
        module.manual_seed(offset)
        change.replace(module, "manual_seed", moved(module.manual_seed))

    change.on_undo(random.setstate, random.getstate())
    random.seed(offset)
    change.replace(random, "seed", moved(random.seed, "a"))
    change.when_imported("numpy.random", numpy_random)
    change.when_imported("torch", torch)
    change.when_imported("gymnasium.utils.seeding", lambda module: change.replace(module, "np_random", moved(module.np_random)))
