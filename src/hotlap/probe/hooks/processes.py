"""Worker processes: waiting for them, what messages to them weigh; and sleeping."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from types import ModuleType
from typing import Any

from hotlap.core.counts import IPC_BYTES, IPC_MESSAGES, SLEPT
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import Patch, as_wait, wrap


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

    wrap(module.Connection, "_recv_bytes", as_wait(events))
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
    for name in ("get", "wait"):
        wrap(module, name, as_wait(events))


PATCHES: dict[str, Patch] = {
    "multiprocessing.connection": _patch_connections,
    "multiprocessing.synchronize": _patch_synchronize,
    "ray": _patch_ray,
    "time": _patch_sleep,
}
