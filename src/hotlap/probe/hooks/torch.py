"""Hooks that see what torch does: modules, gradients, optimizers, copies and reads."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from threading import get_ident
from types import ModuleType
from typing import Any

from hotlap.core.counts import UPDATES
from hotlap.core.paths import BACKWARD as GRADIENTS
from hotlap.core.paths import OPTIMIZER as OPTIMIZE
from hotlap.probe import core, delays
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import Patch, elsewhere, wrap, wrap_family
from hotlap.probe.kinds import BACKWARD, FORWARD, OPTIMIZER, TARGETING


def patch_torch(torch: ModuleType, events: Events) -> None:
    _patch_modules(torch, events)

    def around_backward(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed(GRADIENTS, original)

        def call(*args: Any, **kwargs: Any) -> Any:
            if events.threaded and get_ident() != events.thread:
                return elsewhere(events, GRADIENTS, original, *args, **kwargs)
            if not (begin := events.begin(GRADIENTS)):
                return original(*args, **kwargs)
            if events.lines.wants_trainings:
                events.lines.note_training(sys._getframe(1))
            try:
                return original(*args, **kwargs)
            finally:
                events.end(BACKWARD, begin)

        return core.unless(events, original, call, None, 0, core.INSIDE_ALONE, False)

    wrap(torch.Tensor, "backward", around_backward)
    wrap(torch.autograd, "backward", around_backward)
    wrap(torch.autograd, "grad", around_backward)
    _patch_optimizers(events)
    _patch_copies(torch, events)


def _patch_optimizers(events: Events) -> None:
    open_steps: list[int] = []  # of the measured thread
    steps_elsewhere: dict[int, int] = {}  # other thread -> when its step began

    def begins_elsewhere(*_: Any) -> bool | None:
        """On another thread than the measured one. Whether it is measured from now on."""
        if events.learns_elsewhere():
            return True
        if (tally := events.elsewhere()) is not None:
            tally.learns = True
            if steps_elsewhere.pop(get_ident(), 0):  # the last step raised an error
                tally.abandon()
            steps_elsewhere[get_ident()] = tally.enter()
        return None  # torch takes anything else for arguments of the step

    def ends_elsewhere(*_: Any) -> None:
        if (tally := events.elsewhere()) is not None and (begin := steps_elsewhere.pop(get_ident(), 0)):
            tally.leave(OPTIMIZE, begin)
            tally.counts[UPDATES] += 1

    def step_begins(*_: Any) -> None:
        if get_ident() != events.thread and not begins_elsewhere():
            return
        if open_steps and events.region == OPTIMIZE:  # the last step raised an error
            open_steps.clear()
            events.inside, events.region = False, ""
        open_steps.append(events.begin(OPTIMIZE))

    def step_ends(optimizer: Any, *_: Any) -> None:
        delays.spin(OPTIMIZE)
        if get_ident() != events.thread:
            ends_elsewhere()
        else:
            events.optimizer_ended(open_steps.pop() if open_steps else 0, id(optimizer))

    def around_step(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            step_begins()
            result = original(optimizer, *args, **kwargs)
            step_ends(optimizer)
            return result

        return step

    begins: Callable[..., Any] = step_begins
    ends: Callable[..., Any] = step_ends
    if core.optimizer_begins and core.optimizer_ends and not delays.is_on():  # the same
        begins = core.optimizer_begins(events, begins_elsewhere, None, OPTIMIZE, OPTIMIZER, 0, False)
        ends = core.optimizer_ends(events, ends_elsewhere, None, OPTIMIZE, OPTIMIZER, 0, False)
    hooks = importlib.import_module("torch.optim.optimizer")
    if hasattr(hooks, "register_optimizer_step_post_hook"):
        hooks.register_optimizer_step_pre_hook(begins)
        hooks.register_optimizer_step_post_hook(ends)
    else:  # torch 1
        wrap_family(hooks.Optimizer, {"step": around_step}, abstract=(hooks.Optimizer,))


def _compiling(torch: ModuleType) -> Callable[[], bool]:
    """Whether torch traces a function now. Before 2.1 it does not say."""
    compiler = getattr(torch, "compiler", None)
    return getattr(compiler, "is_compiling", None) or (lambda: False)


def _patch_modules(torch: ModuleType, events: Events) -> None:
    """Forward passes: `Module.__call__`, and functions that torch compiled, in which no module is called any more."""
    is_grad_enabled, is_compiling, now = torch.is_grad_enabled, _compiling(torch), events.now
    Module = torch.nn.Module

    def rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        first: Any = args[0] if args else next(iter(kwargs.values()), None)
        if isinstance(first, dict):
            first = next(iter(first.values()), None)
        shape = getattr(first, "shape", None)
        if events.types_wanted and shape is not None and hasattr(first, "dtype"):
            events.types["forward input"] = str(first.dtype).removeprefix("torch.")
        return int(shape[0]) if shape else 0

    def around_forward(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed_pass(original, is_grad_enabled)

        def seen(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if get_ident() != events.thread:
                return original(module, *args, **kwargs)
            if events.syncs:
                events.note_syncs(inside=False)
            events.inside = True
            begin = now()
            try:
                return original(module, *args, **kwargs)
            finally:
                end = now()
                events.inside = False
                gradients = is_grad_enabled()
                events.emit(FORWARD + gradients, begin, end, rows(args, kwargs))
                if events.watching:
                    events.watch.passed(module, args, kwargs, gradients, begin, end)
                if events.syncs:
                    events.note_syncs(inside=True)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if events.threaded and get_ident() != events.thread:
                return elsewhere(events, is_grad_enabled(), original, self, *args, **kwargs)
            return original(self, *args, **kwargs) if events.inside else seen(self, args, kwargs)

        # Most modules are parts of another. Where torch's own call is what we know, core.c does the same: one call less.
        names = getattr(getattr(original, "__code__", None), "co_names", ())
        return core.forward(events, original, call, is_grad_enabled, FORWARD, 0, names == ("_compiled_call_impl", "_call_impl"))

    def around_compile(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            compiled = original(model, *args, **kwargs)
            if model is None or isinstance(model, Module):  # a decorator, which will come here again; a module as any other
                return compiled

            def run(*args: Any, **kwargs: Any) -> Any:
                if not events.inside and not is_compiling():
                    events.forward(rows(args, kwargs), is_grad_enabled())
                return compiled(*args, **kwargs)

            return functools.wraps(compiled)(run)

        return call

    def around_parameters(original: Callable[..., Any]) -> Callable[..., Any]:
        """Between an update and the next step, whoever asks for a network's parameters moves a target network after it."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling() and events.updated:
                events.at_once(TARGETING)
            return original(*args, **kwargs)

        return core.unless(events, original, call, None, 0, core.NOT_UPDATED, False)

    for name in ("parameters", "load_state_dict"):
        wrap(Module, name, around_parameters)
    wrap(Module, "__call__", around_forward)
    if hasattr(torch, "compile"):  # since torch 2
        wrap(torch, "compile", around_compile)


_READS: dict[str, Any] = {}  # methods of tensors that read their numbers


def watch_reads(on: bool) -> None:
    """Count calls that read a tensor's numbers, or stop it. With a GPU they are always counted."""
    torch = sys.modules.get("torch")
    if torch is None or (not on and (torch.version.cuda or getattr(torch.version, "hip", None))):
        return
    for name, call in _READS.items():
        if on:
            setattr(torch.Tensor, name, call)
        elif name in torch.Tensor.__dict__:
            delattr(torch.Tensor, name)  # it inherits the original


def watch_distributions(events: Events, on: bool) -> None:
    """Note distributions that are made, or stop it."""
    module = sys.modules.get("torch.distributions.distribution")
    if module is None:
        return
    original = getattr(module.Distribution.__init__, "__wrapped__", module.Distribution.__init__)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        events.watch.made(self)

    module.Distribution.__init__ = init if on else original


def _patch_copies(torch: ModuleType, events: Events) -> None:
    """Calls that make the host wait for the device are counted; copies between them are timed.

    Without a GPU there are no copies, and counting can wait for the window that is traced: see `watch_reads`.
    """
    gpu = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
    Tensor, is_compiling = torch.Tensor, _compiling(torch)

    def moved(result: Any, source: Any, begin: int) -> None:
        if not isinstance(result, Tensor):
            events.copied(begin, source.numel() * source.element_size(), True)
        elif result.is_cuda != (isinstance(source, Tensor) and source.is_cuda):
            events.copied(begin, result.numel() * result.element_size(), not result.is_cuda)

    def read(name: str) -> Any:
        original = getattr(Tensor, name)

        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            events.syncs += 1
            if not gpu or not tensor.is_cuda:
                return original(tensor, *args, **kwargs)
            begin = events.now()
            result = original(tensor, *args, **kwargs)
            moved(result, tensor, begin)
            return result

        return _like(original, call)

    def copy(owner: Any, name: str, source: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not events.active or is_compiling():
                return original(*args, **kwargs)
            begin = events.now()
            result = original(*args, **kwargs)
            if torch.cuda.is_initialized():
                moved(result, source(*args, *kwargs.values()), begin)
            return result

        setattr(owner, name, _like(original, call))

    names = ("item", "tolist", "numpy", "nonzero", *(("cpu", "__bool__", "__float__", "__int__") if gpu else ()))
    _READS.update({name: read(name) for name in names})
    if gpu:
        watch_reads(True)
        for name in ("to", "cuda"):
            copy(Tensor, name, lambda tensor, *_: tensor)
        copy(Tensor, "copy_", lambda _, other, *__: other)
        for name in ("tensor", "as_tensor"):
            copy(torch, name, lambda data, *_: data)


def _like(original: Any, replacement: Any) -> Any:
    """The replacement under the original's name, for people and for what finds functions by name."""
    replacement.__name__ = getattr(original, "__name__", "")
    replacement.__doc__ = getattr(original, "__doc__", None)
    return replacement


PATCHES: dict[str, Patch] = {"torch": patch_torch}
