"""Worker processes: waiting for them, what messages to them weigh; and sleeping."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from threading import current_thread, get_ident, main_thread
from types import ModuleType
from typing import Any

from hotlap.core.counts import IPC_BYTES, IPC_MESSAGES, IPC_RECEIVED, SLEPT
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import Patch, as_wait, wrap
from hotlap.probe.stopping import StopProfiling, Waiting


def _patch_connections(module: ModuleType, events: Events) -> None:
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

    def around_receive(original: Callable[..., Any]) -> Callable[..., Any]:
        waiting = as_wait(events)(original)

        def call(connection: Any, maxsize: int | None = None) -> Any:
            received = waiting(connection, maxsize)
            if events.active and received is not None:
                events.counted[IPC_RECEIVED] += received.tell()
            return received

        return call

    wrap(module.Connection, "_recv_bytes", around_receive)
    wrap(module.Connection, "_send_bytes", around_send)
    wrap(module, "wait", around_wait)


def _patch_sleep(module: ModuleType, events: Events) -> None:
    """How long the script slept, and in which stage."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(seconds: float) -> Any:
            if not events.active or get_ident() != events.thread:
                return original(seconds)
            begin, path = events.now(), events.region
            try:
                return original(seconds)
            finally:
                events.counted[f"{SLEPT}@{path}" if path else SLEPT] += (events.now() - begin) * 1e-9

        return call

    wrap(module, "sleep", around)


def _patch_synchronize(module: ModuleType, events: Events) -> None:
    wrap(module.Event, "wait", as_wait(events))


def _patch_ray(module: ModuleType, events: Events) -> None:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if current_thread() is not main_thread():
                return original(*args, **kwargs)
            within, Waiting.in_ray = Waiting.in_ray, True
            try:
                return original(*args, **kwargs)
            except KeyboardInterrupt:
                if not Waiting.stopped:
                    raise
                raise StopProfiling from None
            finally:
                Waiting.in_ray = within

        return as_wait(events)(call)

    for name in ("get", "wait"):
        wrap(module, name, around)


def _patch_actors(module: ModuleType, events: Events) -> None:
    """An actor of Ray waits between the calls of its methods."""
    ended = [0]  # when the last call did, on the measured thread

    def around_executor(executor: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            events.waited(ended[0])
            try:
                return executor(*args, **kwargs)
            finally:
                if get_ident() == events.thread:
                    ended[0] = events.now()

        return functools.wraps(executor)(call)

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: around_executor(original(*args, **kwargs))

    wrap(module.FunctionActorManager, "_make_actor_method_executor", around)


def _patch_queue(module: ModuleType, events: Events) -> None:
    """Between threads: who learns waits for those that act."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        waiting = as_wait(events)(original)

        def call(queue: Any, block: bool = True, timeout: float | None = None) -> Any:
            measured = block and (events.threaded or get_ident() == events.thread)  # a logger's thread is nobody's concern
            return (waiting if measured else original)(queue, block, timeout)

        return call

    wrap(module.Queue, "get", around)


def _patch_futures(module: ModuleType, events: Events) -> None:
    """What workers of a pool were asked for, one at a time as it comes or all of it."""

    def around_completed(original: Callable[..., Any]) -> Callable[..., Any]:
        wait_for_next = as_wait(events)(next)

        def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
            completed = original(*args, **kwargs)
            while True:
                try:
                    future = wait_for_next(completed)
                except StopIteration:
                    return
                yield future

        return call

    wrap(module, "as_completed", around_completed)
    wrap(module, "wait", as_wait(events))
    wrap(module.Future, "result", as_wait(events))


def _patch_pool(module: ModuleType, events: Events) -> None:
    """`Pool.map` and `apply` wait for all that they asked for, `imap` for the next of it."""
    wrap(module.ApplyResult, "get", as_wait(events))
    wrap(module.IMapIterator, "next", as_wait(events))
    module.IMapIterator.__next__ = module.IMapIterator.next


PATCHES: dict[str, Patch] = {
    "concurrent.futures": _patch_futures,  # where scripts import it from; it may have been imported before
    "concurrent.futures._base": _patch_futures,
    "multiprocessing.connection": _patch_connections,
    "multiprocessing.pool": _patch_pool,
    "multiprocessing.synchronize": _patch_synchronize,
    "queue": _patch_queue,
    "ray": _patch_ray,
    "ray._private.function_manager": _patch_actors,
    "time": _patch_sleep,
}
