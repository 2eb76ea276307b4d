"""Switches of torch, of threads and of random numbers."""

import itertools
import numbers
import os
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hotlap.interventions.changing import Change, nothing, when_imported


@contextmanager
def threads(number: int) -> Iterator[None]:
    """So many threads for torch and for what OpenMP runs, whatever the script says."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ |= dict.fromkeys(names, str(number))

    def patch(torch: Any, change: Change) -> None:
        torch.set_num_threads(number)
        change.set(torch, "set_num_threads", nothing)
        change.took()

    try:
        with when_imported({"torch": patch}):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@contextmanager
def affinity(cores: list[int]) -> Iterator[None]:
    """On these of the cores that it may use, counted from 0; processes that it starts may use all of them."""
    before = os.sched_getaffinity(0)
    Change().took()
    usable = sorted(before)
    os.sched_setaffinity(0, {usable[core % len(usable)] for core in cores})
    os.register_at_fork(after_in_child=lambda: os.sched_setaffinity(0, before))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cv2_threads(number: int = 0) -> AbstractContextManager[Change]:
    def patch(cv2: Any, change: Change) -> None:
        cv2.setNumThreads(number)
        change.set(cv2, "setNumThreads", nothing)
        change.took()

    return when_imported({"cv2": patch})


def validate_off() -> AbstractContextManager[Change]:
    """Distributions do not check their arguments."""

    def patch(module: Any, change: Change) -> None:
        change.set(module.Distribution, "_validate_args", False)

    return when_imported({"torch.distributions.distribution": patch})


def anomaly_off() -> AbstractContextManager[Change]:
    """Autograd's debug mode stays off."""

    def patch(torch: Any, change: Change) -> None:
        class Off:
            def __init__(self, *_: Any, **__: Any) -> None:
                change.took()

            def __enter__(self) -> None:
                pass

            def __exit__(self, *_: Any) -> None:
                pass

        for name in ("set_detect_anomaly", "detect_anomaly"):
            change.set(torch.autograd, name, Off)

    return when_imported({"torch": patch})


def foreach(fused: bool = False) -> AbstractContextManager[Change]:
    """Optimizers update all tensors at once."""

    def patch(torch: Any, change: Change) -> None:
        for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
            original = kind.__init__

            def init(self: Any, *args: Any, _original: Any = original, **kwargs: Any) -> None:
                kwargs["foreach"] = not fused
                if fused:
                    kwargs["fused"] = True
                _original(self, *args, **kwargs)

            change.set(kind, "__init__", init)

    return when_imported({"torch": patch})


def compiled() -> AbstractContextManager[Change]:
    """Networks are compiled when they first run: those that are no part of another."""

    def patch(torch: Any, change: Change) -> None:
        original = torch.nn.Module.__call__
        inside: list[bool] = []

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not inside and self._compiled_call_impl is None and any(True for _ in self.parameters()):
                self.compile()
            inside.append(True)
            try:
                return original(self, *args, **kwargs)
            finally:
                inside.pop()

        change.set(torch.nn.Module, "__call__", call)

    return when_imported({"torch": patch})


def compile_off() -> AbstractContextManager[Change]:
    def patch(torch: Any, change: Change) -> None:
        def identity(model: Any = None, **_: Any) -> Any:
            return (lambda function: function) if model is None else model

        change.set(torch, "compile", identity)
        change.set(torch.nn.Module, "compile", nothing)

    return when_imported({"torch": patch})


def matmul(precision: str = "high") -> AbstractContextManager[Change]:
    def patch(torch: Any, change: Change) -> None:
        torch.set_float32_matmul_precision(precision)
        change.took()
        change.set(torch, "set_float32_matmul_precision", nothing)

    return when_imported({"torch": patch})


def autocast(device: str = "cuda") -> AbstractContextManager[Change]:
    """Forward passes in mixed precision."""

    def patch(torch: Any, change: Change) -> None:
        original = torch.nn.Module.__call__

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with torch.autocast(device):
                return original(self, *args, **kwargs)

        change.set(torch.nn.Module, "__call__", call)

    return when_imported({"torch": patch})


def float32() -> AbstractContextManager[Change]:
    """No doubles: neither by default, nor as parameters, nor as what tensors are turned into."""

    def patch(torch: Any, change: Change) -> None:
        change.set(torch, "set_default_dtype", nothing)
        change.set(torch, "float64", torch.float32)
        change.set(torch, "double", torch.float32)
        change.set(torch.nn.Module, "double", lambda self: self.float())
        change.set(torch.Tensor, "double", lambda self: self.float())
        original = torch.from_numpy

        def from_numpy(array: Any) -> Any:
            tensor = original(array)
            return tensor.float() if tensor.is_floating_point() and tensor.element_size() == 8 else tensor

        change.set(torch, "from_numpy", from_numpy)

    return when_imported({"torch": patch})


@contextmanager
def seed(offset: int) -> Iterator[None]:
    """Another seed: whatever the script seeds with, moved by an offset; and if it seeds nothing, the offset itself."""
    random.seed(offset)
    seed_python = random.seed

    calls = itertools.count()

    def moved(original: Any, name: str = "seed") -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            value = args[0] if args else kwargs.pop(name, None)
            if value is None:
                value = offset + next(calls)  # nothing was said: another one each time, the same in every run
            elif isinstance(value, numbers.Integral):
                value = int(value) + offset
            return original(value, *args[1:], **kwargs)

        return call

    def numpy_random(module: Any, change: Change) -> None:
        module.seed(offset)
        change.set(module, "seed", moved(module.seed))
        change.set(module, "default_rng", moved(module.default_rng))

    def torch(module: Any, change: Change) -> None:
        module.manual_seed(offset)
        change.set(module, "manual_seed", moved(module.manual_seed))

    def seeding(module: Any, change: Change) -> None:
        change.set(module, "np_random", moved(module.np_random))

    random.seed = moved(seed_python, "a")
    try:
        with when_imported({"numpy.random": numpy_random, "torch": torch, "gymnasium.utils.seeding": seeding}):
            yield
    finally:
        random.seed = seed_python
