"""Time of each `nn.Module`, forward and backward.

Hooks change what they measure, so this runs in a pass of its own. On a GPU every hook synchronises: the times attribute the
work to modules, and are not a throughput.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass
class ModuleTime:
    """One module: times in seconds, summed over its calls. A container's time includes its children's."""

    name: str
    kind: str
    parameters: int
    depth: int
    calls: int = 0
    forward: float = 0.0
    backward: float = 0.0


class ModuleTimer:
    """Times all modules of some networks while its `watch` is open."""

    def __init__(self, networks: dict[str, nn.Module]) -> None:
        self._gpu = any(p.is_cuda for network in networks.values() for p in network.parameters())
        self._modules: dict[nn.Module, ModuleTime] = {}
        for label, network in networks.items():
            for name, module in network.named_modules():
                full = f"{label}.{name}" if name else label
                count = sum(p.numel() for p in module.parameters())
                entry = ModuleTime(full, type(module).__name__, count, full.count("."))
                self._modules.setdefault(module, entry)

    @contextmanager
    def watch(self) -> Iterator[None]:
        handles: list[Any] = []
        for module, entry in self._modules.items():
            handles += self._watch_forward(module, entry)
            if not any(module.children()):
                handles += self._watch_backward(module, entry)
        try:
            with warnings.catch_warnings():  # torch warns where inputs need no gradient; `_watch_backward` allows for it
                warnings.filterwarnings("ignore", "Full backward hook is firing")
                yield
        finally:
            for handle in handles:
                handle.remove()

    def results(self) -> list[ModuleTime]:
        """All modules that ran, in the order of the network. A container's backward is the sum of its leaves'."""
        entries = list(self._modules.values())
        for i, entry in enumerate(entries):
            below = [e for e in entries[i + 1 :] if e.name.startswith(f"{entry.name}.")]
            if below:
                leaves = [e for e in below if not any(o.name.startswith(f"{e.name}.") for o in below)]
                entry.backward = sum(e.backward for e in leaves)
        return [entry for entry in entries if entry.calls]

    def _now(self) -> float:
        if self._gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def _watch_forward(self, module: nn.Module, entry: ModuleTime) -> list[Any]:
        begun: list[float] = []

        def before(*_: Any) -> None:
            begun.append(self._now())

        def after(*_: Any) -> None:
            entry.forward += self._now() - begun.pop()
            entry.calls += 1

        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]

    def _watch_backward(self, module: nn.Module, entry: ModuleTime) -> list[Any]:
        """From the gradient of the output to the gradient of the input or of the last parameter, whichever is later.

        The first module of a network has no input gradient; then only its parameters tell when it is done. Parameters of a
        module that was not called, because another one uses them, tell nothing.
        """
        mark = 0.0

        def begin(*_: Any) -> None:
            nonlocal mark
            mark = self._now()

        def end(*_: Any) -> None:
            nonlocal mark
            if mark:
                now = self._now()
                entry.backward += now - mark
                mark = now

        handles = [module.register_full_backward_pre_hook(begin), module.register_full_backward_hook(end)]
        handles += [p.register_post_accumulate_grad_hook(end) for p in module.parameters() if p.requires_grad]  # type: ignore[no-untyped-call]
        return handles
