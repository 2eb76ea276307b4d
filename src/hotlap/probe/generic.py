"""Hooks that see any script: torch, environments, worker processes, logging."""

import functools
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from hotlap import stages
from hotlap.probe.hooks import Around, Patch, as_region, as_wait, wrap, wrap_family
from hotlap.probe.timeline import RESET, STEP, WAIT, Timeline

# Wrappers of these packages take no notice if an instance of theirs gets a `step` of its own.
WRAPPERS = ("gymnasium.wrappers.", "stable_baselines3.common.")
IPC_MESSAGES, IPC_BYTES = "ipc_messages", "ipc_bytes"


# -- torch --


def patch_torch(torch: ModuleType, timeline: Timeline) -> None:
    _patch_modules(torch, timeline)

    def around_backward(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not timeline.backward_begins():
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                timeline.backward_ends()

        return call

    wrap(torch.Tensor, "backward", around_backward)
    wrap(torch.autograd, "backward", around_backward)
    wrap(torch.autograd, "grad", around_backward)
    wrap(torch, "save", as_region(timeline, stages.CHECKPOINT))
    open_steps: list[bool] = []
    hooks = importlib.import_module("torch.optim.optimizer")
    hooks.register_optimizer_step_pre_hook(lambda *_: open_steps.append(timeline.optimizer_begins()))
    hooks.register_optimizer_step_post_hook(lambda *_: timeline.optimizer_ends() if open_steps.pop() else None)
    _patch_copies(torch, timeline)


def _patch_modules(torch: ModuleType, timeline: Timeline) -> None:
    """Forward passes: `Module.__call__`, and functions that torch compiled, in which no module is called any more."""
    is_grad_enabled = torch.is_grad_enabled
    Module = torch.nn.Module

    def rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        first: Any = args[0] if args else next(iter(kwargs.values()), None)
        if isinstance(first, dict):
            first = next(iter(first.values()), None)
        shape = getattr(first, "shape", None)
        if timeline.look and shape is not None and hasattr(first, "dtype"):
            timeline.types["forward input"] = str(first.dtype).removeprefix("torch.")
        return int(shape[0]) if shape else 0

    def around_forward(original: Callable[..., Any]) -> Callable[..., Any]:
        def seen(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not timeline.forward_begins(rows(args, kwargs), is_grad_enabled()):
                return original(module, *args, **kwargs)
            try:
                return original(module, *args, **kwargs)
            finally:
                timeline.forward_ends()

        # Most modules are parts of another. Where torch's own call is what we know, do the same at once: one call less.
        if getattr(original, "__code__", None) and original.__code__.co_names == ("_compiled_call_impl", "_call_impl"):

            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                if timeline.inside == 0:
                    return seen(self, *args, **kwargs)
                if self._compiled_call_impl is not None:
                    return self._compiled_call_impl(*args, **kwargs)
                return self._call_impl(*args, **kwargs)

        else:

            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                return (original if timeline.inside else seen)(self, *args, **kwargs)

        return call

    def around_compile(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            compiled = original(model, *args, **kwargs)
            if model is None or isinstance(model, Module):  # a decorator, which will come here again; a module as any other
                return compiled

            def run(*args: Any, **kwargs: Any) -> Any:
                if timeline.inside == 0 and not torch.compiler.is_compiling():
                    timeline.forward_somewhere(rows(args, kwargs), is_grad_enabled())
                return compiled(*args, **kwargs)

            return functools.wraps(compiled)(run)

        return call

    wrap(Module, "__call__", around_forward)
    wrap(torch, "compile", around_compile)


def _patch_copies(torch: ModuleType, timeline: Timeline) -> None:
    """Calls that make the host wait for the device are counted; copies between them are timed, where there can be any."""
    gpu = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
    Tensor = torch.Tensor

    def moved(result: Any, source: Any, begin: int) -> None:
        if not isinstance(result, Tensor):
            timeline.transferred(timeline.now() - begin, source.numel() * source.element_size(), True)
        elif result.is_cuda != (isinstance(source, Tensor) and source.is_cuda):
            timeline.transferred(timeline.now() - begin, result.numel() * result.element_size(), not result.is_cuda)

    def read(name: str) -> None:
        original = getattr(Tensor, name)

        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            timeline.syncs += 1
            if not gpu or not tensor.is_cuda:
                return original(tensor, *args, **kwargs)
            begin = timeline.now()
            result = original(tensor, *args, **kwargs)
            moved(result, tensor, begin)
            return result

        setattr(Tensor, name, _like(original, call))

    def copy(owner: Any, name: str, source: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            begin = timeline.now()
            result = original(*args, **kwargs)
            if timeline.active and torch.cuda.is_initialized():
                moved(result, source(*args), begin)
            return result

        setattr(owner, name, _like(original, call))

    for name in ("item", "tolist", "numpy", "nonzero", *(("cpu", "__bool__", "__float__", "__int__") if gpu else ())):
        read(name)
    if gpu:
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


def _num_envs(env: Any, action: Any, result: Any) -> int:
    return int(getattr(env, "num_envs", 1))


def patch_environments(
    base: type, timeline: Timeline, steps: Steps = _num_envs, also: tuple[str, ...] = ("step_wait",)
) -> None:
    """Hook `step` and `reset` of a class of environments and of every class derived from it.

    `steps` says how many steps one call makes; `also` names methods that step too.
    """
    ends = _Ends()

    def around_step(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if timeline.inside or not timeline.environment_begins(STEP, id(env)):
                if timeline.in_environment(STEP, RESET):
                    _let_alone(env, "step", call, original)
                return original(env, *args, **kwargs)
            seen = (0, 0, 0)
            try:
                result = original(env, *args, **kwargs)
                syncs = timeline.syncs
                seen = (steps(env, args[0] if args else None, result), *ends.of(env, result))
                timeline.syncs = syncs  # looking at the result is not the script's doing
                if timeline.look:
                    _note_types(timeline, result)
                return result
            finally:
                timeline.environment_ends(STEP, *seen)

        return call

    def around_reset(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if timeline.inside:
                if not timeline.in_environment(STEP):
                    return original(env, *args, **kwargs)
                begin = timeline.carve_begins(RESET)  # an episode begins inside a step
                try:
                    return original(env, *args, **kwargs)
                finally:
                    timeline.carve_ends(begin)
            if not timeline.environment_begins(RESET, id(env), _evaluates()):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                timeline.environment_ends(RESET)

        return call

    def around_begun(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if timeline.inside or not timeline.environment_begins(STEP, id(env)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                timeline.environment_ends(STEP)

        return call

    # A vector environment may be stepped in two halves.
    methods: dict[str, Around] = {"step": around_step, "reset": around_reset, "step_async": around_begun}
    wrap_family(base, methods | dict.fromkeys(also, around_step))


def _let_alone(env: Any, name: str, hook: Any, original: Callable[..., Any]) -> None:
    """A known wrapper inside another environment will stay there: let this instance call the original directly."""
    kind = type(env)
    if kind.__module__.startswith(WRAPPERS) and getattr(kind, name) is hook and hasattr(env, "__dict__"):
        env.__dict__[name] = original.__get__(env)


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


def _note_types(timeline: Timeline, result: Any) -> None:
    timeline.look = False
    observation = result[0] if isinstance(result, tuple) and result else result
    if isinstance(observation, dict):
        observation = next(iter(observation.values()), None)
    if hasattr(observation, "dtype"):
        timeline.types["observation"] = str(observation.dtype).removeprefix("torch.")


class _Ends:
    """Episodes that a step ended, and how long they were. Knows the forms of Gymnasium, SB3, PettingZoo, TorchRL and skrl."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, Any]] = {}  # environment -> steps so far, and at which step its episodes began

    def of(self, env: Any, result: Any) -> tuple[int, int]:
        if isinstance(result, tuple) and len(result) == 2:
            result = result[0]
        if hasattr(result, "batch_size"):  # TorchRL's TensorDict
            done = result.get(("next", "done"), None)
            return (0, 0) if done is None or done.is_cuda else (int(done.sum()), 0)
        steps, begun = self._begun.get(id(env), (0, 0))
        steps += 1
        episodes = length = 0
        if result is None:  # agents in turns
            done = truncated = None
        elif isinstance(result, tuple) and len(result) in (4, 5):
            done, truncated = result[2], result[3] if len(result) == 5 else None
        else:
            return 0, 0
        if hasattr(done, "is_cuda"):
            if done.is_cuda:  # looking at it would make the host wait for the device
                return 0, 0
            done, truncated = done.numpy().ravel(), truncated if truncated is None else truncated.numpy().ravel()
        if done is None:
            over = getattr(env, "agents", None) == []
        elif isinstance(done, dict):  # by agent; the episode ends for all
            over = bool(done) and all(bool(done[agent]) or bool((truncated or {}).get(agent)) for agent in done)
        elif getattr(done, "ndim", 0) and type(done).__module__ == "numpy":
            over = False
            ended = (done if truncated is None else done | truncated).nonzero()[0]
            if len(ended):
                if not hasattr(begun, "shape") or len(begun) != len(done):
                    begun = done.astype("int64") * 0
                episodes, length = len(ended), int((steps - begun[ended]).sum())
                begun[ended] = steps
        else:
            over = bool(done) or bool(truncated)
        if over:
            episodes, length, begun = 1, steps - begun, steps
        self._begun[id(env)] = (steps, begun)
        return episodes, length


def patch_gymnasium(module: ModuleType, timeline: Timeline) -> None:
    patch_environments(module.Env, timeline)
    patch_environments(module.vector.VectorEnv, timeline)


def patch_pettingzoo(module: ModuleType, timeline: Timeline) -> None:
    """One step is one call: all agents of a parallel environment; the agent whose turn it is, unless it is dead."""
    patch_environments(module.ParallelEnv, timeline, lambda env, action, result: 1)
    patch_environments(module.AECEnv, timeline, lambda env, action, result: int(action is not None))


# -- worker processes --


def patch_connections(module: ModuleType, timeline: Timeline) -> None:
    """`multiprocessing`: waiting for a message, and what messages weigh."""

    def around_send(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(connection: Any, buffer: Any) -> Any:
            if timeline.active:
                timeline.count(IPC_MESSAGES, 1)
                timeline.count(IPC_BYTES, len(buffer))
            return original(connection, buffer)

        return call

    def around_wait(original: Callable[..., Any]) -> Callable[..., Any]:
        waiting = as_wait(timeline, WAIT)(original)

        def call(objects: Any, timeout: float | None = None) -> Any:
            return (original if timeout == 0 else waiting)(objects, timeout)

        return call

    wrap(module.Connection, "_recv_bytes", as_wait(timeline, WAIT))
    wrap(module.Connection, "_send_bytes", around_send)
    wrap(module, "wait", around_wait)


def patch_events(module: ModuleType, timeline: Timeline) -> None:
    wrap(module.Event, "wait", as_wait(timeline, WAIT))


def patch_ray(module: ModuleType, timeline: Timeline) -> None:
    for name in ("get", "wait"):
        wrap(module, name, as_wait(timeline, WAIT))


# -- logging --


def patch_tensorboard(module: ModuleType, timeline: Timeline) -> None:
    for name in ("add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush", "close"):
        wrap(module.SummaryWriter, name, as_region(timeline, stages.LOG))


def patch_wandb(module: ModuleType, timeline: Timeline) -> None:
    for name in ("log", "finish", "save"):
        wrap(module.Run, name, as_region(timeline, stages.LOG))


def patch_logging(module: ModuleType, timeline: Timeline) -> None:
    wrap(module.Logger, "callHandlers", as_region(timeline, stages.LOG))


class Output(io.TextIOWrapper):
    """Standard output or error, where writing is logging. `print` itself stays: numba and torch.compile know it by identity."""

    def __init__(self, stream: io.TextIOWrapper, timeline: Timeline) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.mode = "w"  # type: ignore[misc]
        self._timeline = timeline

    def write(self, text: str) -> int:
        if self._timeline.inside or not self._timeline.region_begins(stages.LOG):
            return super().write(text)
        try:
            return super().write(text)
        finally:
            self._timeline.region_ends(stages.LOG)


@contextmanager
def watched_output(timeline: Timeline) -> Iterator[None]:
    """Standard output and error go the same way, and what writing to them costs is seen."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    ours = {name: Output(stream, timeline) for name, stream in streams.items() if type(stream) is io.TextIOWrapper}
    for name, stream in ours.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in ours.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, streams[name])
            stream.detach()  # flushes, and leaves the file to the original


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
