"""Hooks that see any script: worker processes and logging; those of torch and of environments have files of their own.

The table at the end says which module gets which.
"""

from collections.abc import Callable
from threading import get_ident
from types import ModuleType
from typing import Any

from hotlap.core import stages
from hotlap.core.counts import IPC_BYTES, IPC_MESSAGES, SLEPT
from hotlap.probe.events import Events
from hotlap.probe.hooks.environments import patch_gymnasium, patch_pettingzoo
from hotlap.probe.hooks.patching import Patch, as_region, as_wait, wrap
from hotlap.probe.hooks.torch import patch_torch


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


def patch_sleep(module: ModuleType, events: Events) -> None:
    """`time.sleep`: how long the script slept, and in which stage."""

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


def patch_events(module: ModuleType, events: Events) -> None:
    wrap(module.Event, "wait", as_wait(events))


def patch_ray(module: ModuleType, events: Events) -> None:
    for name in ("get", "wait"):
        wrap(module, name, as_wait(events))


def patch_tensorboard(module: ModuleType, events: Events) -> None:
    for name in ("add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush", "close"):
        wrap(module.SummaryWriter, name, as_region(events, stages.LOG))


def patch_wandb(module: ModuleType, events: Events) -> None:
    for name in ("log", "finish", "save"):
        wrap(module.Run, name, as_region(events, stages.LOG))


def patch_logging(module: ModuleType, events: Events) -> None:
    wrap(module.Logger, "callHandlers", as_region(events, stages.LOG))


def patch_numpy(module: ModuleType, events: Events) -> None:
    for name in ("save", "savez", "savez_compressed"):
        wrap(module, name, as_region(events, stages.CHECKPOINT))


def patch_pickle(module: ModuleType, events: Events) -> None:
    wrap(module, "dump", as_region(events, stages.CHECKPOINT))


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
    "numpy": [patch_numpy],
    "pickle": [patch_pickle],
    "time": [patch_sleep],
}
