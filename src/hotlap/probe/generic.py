"""Hooks that see any script: torch, environments, worker processes, logging."""

import functools
import importlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import ModuleType
from typing import Any

from hotlap import stages
from hotlap.probe import core, delays
from hotlap.probe.events import Events
from hotlap.probe.hooks import Around, Patch, as_region, as_wait, wrap, wrap_family
from hotlap.probe.timeline import BACKWARD, ENDED, EVALUATING, FORWARD, GRADIENTS, OPTIMIZE, RESET, RESETTING, STEP, STEPPED

IPC_MESSAGES, IPC_BYTES = "ipc_messages", "ipc_bytes"


# -- torch --


def patch_torch(torch: ModuleType, events: Events) -> None:
    _patch_modules(torch, events)

    def around_backward(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed(GRADIENTS, original)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not (begin := events.begin(GRADIENTS)):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                events.end(BACKWARD, begin)

        return call

    wrap(torch.Tensor, "backward", around_backward)
    wrap(torch.autograd, "backward", around_backward)
    wrap(torch.autograd, "grad", around_backward)
    wrap(torch, "save", as_region(events, stages.CHECKPOINT))
    open_steps: list[int] = []

    def step_begins(*_: Any) -> None:
        if open_steps and events.region == OPTIMIZE and get_ident() == events.thread:  # the last step raised an error
            open_steps.clear()
            events.inside, events.region = False, ""
        open_steps.append(events.begin(OPTIMIZE))

    hooks = importlib.import_module("torch.optim.optimizer")
    hooks.register_optimizer_step_pre_hook(step_begins)

    def step_ends(*_: Any) -> None:
        delays.spin(OPTIMIZE)
        events.optimizer_ended(open_steps.pop() if open_steps else 0)

    hooks.register_optimizer_step_post_hook(step_ends)
    _patch_copies(torch, events)


def _patch_modules(torch: ModuleType, events: Events) -> None:
    """Forward passes: `Module.__call__`, and functions that torch compiled, in which no module is called any more."""
    is_grad_enabled, now = torch.is_grad_enabled, events.now
    Module = torch.nn.Module

    def rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        first: Any = args[0] if args else next(iter(kwargs.values()), None)
        if isinstance(first, dict):
            first = next(iter(first.values()), None)
        shape = getattr(first, "shape", None)
        if events.look and shape is not None and hasattr(first, "dtype"):
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
                events.emit(FORWARD + is_grad_enabled(), begin, end, rows(args, kwargs))
                if events.syncs:
                    events.note_syncs(inside=True)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
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
                if not events.inside and not torch.compiler.is_compiling():
                    events.forward(rows(args, kwargs), is_grad_enabled())
                return compiled(*args, **kwargs)

            return functools.wraps(compiled)(run)

        return call

    wrap(Module, "__call__", around_forward)
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


def _patch_copies(torch: ModuleType, events: Events) -> None:
    """Calls that make the host wait for the device are counted; copies between them are timed.

    Without a GPU there are no copies, and counting can wait for the window that is traced: see `watch_reads`.
    """
    gpu = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
    Tensor = torch.Tensor

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
            if not events.active or torch.compiler.is_compiling():
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
    """The replacement under the original's name, for people and for what looks functions up by name."""
    replacement.__name__ = getattr(original, "__name__", "")
    replacement.__doc__ = getattr(original, "__doc__", None)
    return replacement


# -- environments --


Steps = Callable[[Any, Any, Any], int]  # (environment, action, what step returned) -> how many steps that was


_NONE: Iterable[int] = ()


def num_envs(env: Any, action: Any, result: Any) -> int:
    return int(getattr(env, "num_envs", 1))


def patch_environments(
    base: type,
    events: Events,
    steps: Steps = num_envs,
    also: tuple[str, ...] = ("step_wait",),
    abstract: tuple[type, ...] = (),
) -> None:
    """Hook `step` and `reset` of a class of environments and of every class derived from it.

    `steps` says how many steps one call makes; `also` names methods that step too; `abstract` are classes to inherit from.
    """

    def look(env: Any, action: Any, result: Any) -> tuple[int, Iterable[int]]:
        """How many steps that was, and which episodes ended. What looks strange must never be the script's trouble."""
        try:
            if events.look:
                _note_types(events, result)
            return steps(env, action, result), _ended(env, result)
        except Exception:
            return 1, _NONE

    def around_step(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed(STEP, original)
        now = events.now

        def at_rest() -> bool:
            return not events.region and get_ident() == events.thread

        def step_at_rest(env: Any, *args: Any, **kwargs: Any) -> Any:
            events.region = STEP
            try:
                result = original(env, *args, **kwargs)
            finally:
                events.region = ""
            events.stepped_at_rest(id(env), *look(env, args[0] if args else None, result))
            return result

        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if (events.inside and not (events.resting and at_rest())) or get_ident() != events.thread:
                return original(env, *args, **kwargs)
            if events.resting and not events.wakes():
                return step_at_rest(env, *args, **kwargs)
            begin = now()
            if events.updated or begin >= events.late:
                events.transition()
                if events.resting:
                    return step_at_rest(env, *args, **kwargs)
                begin = now()
            if events.syncs:
                events.note_syncs(inside=False)
            events.inside, events.region = True, STEP
            number, ended = 0, _NONE
            try:
                result = original(env, *args, **kwargs)
                syncs = events.syncs
                number, ended = look(env, args[0] if args else None, result)
                events.syncs = syncs  # looking at the result is not the script's doing
                return result
            finally:
                events.stepped(STEPPED, begin, id(env), number)
                for which in ended:
                    events.at_once(ENDED, id(env), which)

        return core.step(events, original, call, look, STEPPED, steps is num_envs, False)

    def around_reset(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if events.inside:
                if not events.in_environment(STEP):
                    return original(env, *args, **kwargs)
                begin = events.carve(RESET)  # an episode begins inside a step
                try:
                    return original(env, *args, **kwargs)
                finally:
                    events.carved(begin)
            evaluates = _evaluates()
            if not (begin := events.environment(RESET)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                events.end(EVALUATING if evaluates else RESETTING, begin, id(env))

        return call

    def around_begun(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if events.inside or not (begin := events.environment(STEP)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                events.end(STEPPED, begin, id(env))

        return call

    # A vector environment may be stepped in two halves.
    methods: dict[str, Around] = {"step": around_step, "reset": around_reset, "step_async": around_begun}
    wrap_family(base, methods | dict.fromkeys(also, around_step), abstract)


def _evaluates() -> bool:
    """Whether a function that resets an environment, or one that called it, says that it evaluates."""
    frame = sys._getframe(2)
    for _ in range(12):
        if frame is None or frame.f_code.co_name == "<module>":
            return False
        name = frame.f_code.co_name.lower()
        if "eval" in name:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _note_types(events: Events, result: Any) -> None:
    events.look = False
    observation = result[0] if isinstance(result, tuple) and result else result
    if isinstance(observation, dict):
        observation = next(iter(observation.values()), None)
    if hasattr(observation, "dtype"):
        events.types["observation"] = str(observation.dtype).removeprefix("torch.")


def _ended(env: Any, result: Any) -> Iterable[int]:
    """Which episodes a step ended. Knows what Gymnasium, SB3, PettingZoo, TorchRL and skrl return."""
    if isinstance(result, tuple):
        size = len(result)
        done: Any = result[2] if size in (4, 5) else None
        truncated: Any = result[3] if size == 5 else False
        if isinstance(done, list):
            return [number for number, over in enumerate(done) if over]
        if getattr(done, "ndim", 0) and hasattr(done, "tobytes"):
            if b"\x01" not in done.tobytes() and (truncated is False or b"\x01" not in truncated.tobytes()):
                return _NONE  # by far the most frequent case, and ten times faster than asking numpy
            return _which(done | truncated)
        if size == 2:
            result = result[0]
        elif isinstance(done, dict):  # by agent; the episode ends for all
            return (0,) if done and all(done[a] or (truncated and truncated.get(a)) for a in done) else _NONE
        elif hasattr(done, "is_cuda"):
            return _NONE if done.is_cuda else _which_tensor(done | truncated)
        else:
            return (0,) if done or truncated else _NONE
    if result is None:  # agents take turns
        return (0,) if getattr(env, "agents", None) == [] else _NONE
    if hasattr(result, "batch_size"):  # a TensorDict
        return _which_tensor(result.get(("next", "done"), None))
    return _NONE


def _which(done: Any) -> Iterable[int]:
    return [int(number) for number in done.ravel().nonzero()[0]]


def _which_tensor(done: Any) -> Iterable[int]:
    if done is None or done.is_cuda:  # looking at it would make the host wait for the device
        return _NONE
    return _which(done.detach().__array__())


def patch_gymnasium(module: ModuleType, events: Events) -> None:
    wrappers = ("Wrapper", "ObservationWrapper", "ActionWrapper", "RewardWrapper")
    patch_environments(module.Env, events, abstract=tuple(getattr(module, name) for name in wrappers))
    patch_environments(module.vector.VectorEnv, events)


def patch_pettingzoo(module: ModuleType, events: Events) -> None:
    """One step is one call: all agents of a parallel environment; the agent whose turn it is, unless it is dead."""
    patch_environments(module.ParallelEnv, events, lambda env, action, result: 1)
    patch_environments(module.AECEnv, events, lambda env, action, result: int(action is not None))


# -- worker processes --


def patch_connections(module: ModuleType, events: Events) -> None:
    """`multiprocessing`: waiting for a message, and what messages weigh."""

    def around_send(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(connection: Any, buffer: Any) -> Any:
            if events.active:
                events.counted[IPC_MESSAGES] += 1
                events.counted[IPC_BYTES] += len(buffer)
            return original(connection, buffer)

        return call

    def around_wait(original: Callable[..., Any]) -> Callable[..., Any]:
        waiting = as_wait(events)(original)

        def call(object_list: Any, timeout: float | None = None) -> Any:
            return (original if timeout == 0 else waiting)(object_list, timeout)

        return call

    wrap(module.Connection, "_recv_bytes", as_wait(events))
    wrap(module.Connection, "_send_bytes", around_send)
    wrap(module, "wait", around_wait)


def patch_events(module: ModuleType, events: Events) -> None:
    wrap(module.Event, "wait", as_wait(events))


def patch_ray(module: ModuleType, events: Events) -> None:
    for name in ("get", "wait"):
        wrap(module, name, as_wait(events))


# -- logging --


def patch_tensorboard(module: ModuleType, events: Events) -> None:
    for name in ("add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush", "close"):
        wrap(module.SummaryWriter, name, as_region(events, stages.LOG))


def patch_wandb(module: ModuleType, events: Events) -> None:
    for name in ("log", "finish", "save"):
        wrap(module.Run, name, as_region(events, stages.LOG))


def patch_logging(module: ModuleType, events: Events) -> None:
    wrap(module.Logger, "callHandlers", as_region(events, stages.LOG))


class Output(io.TextIOWrapper):
    """Standard output or error, where writing is logging. `print` itself stays: numba and torch.compile know it by identity."""

    def __init__(self, stream: io.TextIOWrapper, events: Events) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.mode = "w"  # type: ignore[misc]
        self._write = as_region(events, stages.LOG)(super().write)

    def write(self, text: str) -> int:
        return int(self._write(text))

    def close(self) -> None:
        """The file stays the original's; the script may hold this one until the very end."""
        self.flush()


@contextmanager
def watched_output(events: Events) -> Iterator[None]:
    """Standard output and error go the same way, and what writing to them costs is seen."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    ours = {name: Output(stream, events) for name, stream in streams.items() if type(stream) is io.TextIOWrapper}
    for name, stream in ours.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in ours.items():
            stream.flush()
            if getattr(sys, name) is stream:
                setattr(sys, name, streams[name])


PATCHES: dict[str, list[Patch]] = {
    "torch": [patch_torch],
    "torch.utils.tensorboard.writer": [patch_tensorboard],
    "tensorboardX.writer": [patch_tensorboard],
    "wandb.sdk.wandb_run": [patch_wandb],
    "gymnasium": [patch_gymnasium],
    "gym": [patch_gymnasium],
    "pettingzoo.utils.env": [patch_pettingzoo],
    "multiprocessing.connection": [patch_connections],
    "multiprocessing.synchronize": [patch_events],
    "ray": [patch_ray],
    "logging": [patch_logging],
}
