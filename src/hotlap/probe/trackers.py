"""Tracking services and database clients that connect from C, or in threads and processes of their own, where no audit event
has user code on its stack: the function that begins it is wrapped once its package is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from hotlap.probe.effects import Blame, Watcher
from hotlap.probe.events import EVENTS, Events
from hotlap.probe.hooks.patching import Finder, wrap
from hotlap.record.effects import EffectKind

_OFFLINE = ("disabled", "offline", "dryrun")


def _wandb_is_off(arguments: Mapping[str, Any]) -> bool:
    if os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1", "yes"):
        return True
    settings = arguments.get("settings")
    mode = arguments.get("mode") or getattr(settings, "mode", None) or os.environ.get("WANDB_MODE") or "online"
    return str(mode) in _OFFLINE


def _mlflow_is_off(_: Mapping[str, Any]) -> bool:
    """Without a server it writes files."""
    address = str(sys.modules["mlflow"].get_tracking_uri())
    return not address.startswith(("http", "databricks"))


def _never(_: Mapping[str, Any]) -> bool:
    return False


def _neptune_is_off(arguments: Mapping[str, Any]) -> bool:
    return str(arguments.get("mode") or os.environ.get("NEPTUNE_MODE") or "async") in ("offline", "debug", "read-only")


# Module -> function, kind, whether it is turned off.
_FUNCTIONS: dict[str, list[tuple[str, EffectKind, Callable[[Mapping[str, Any]], bool]]]] = {
    "wandb": [("init", EffectKind.TRACKER, _wandb_is_off)],
    "mlflow": [("start_run", EffectKind.TRACKER, _mlflow_is_off)],
    "neptune": [("init_run", EffectKind.TRACKER, _neptune_is_off), ("init", EffectKind.TRACKER, _neptune_is_off)],
    "comet_ml": [("start", EffectKind.TRACKER, _never), ("login", EffectKind.TRACKER, _never)],
    "swanlab": [("init", EffectKind.TRACKER, _wandb_is_off)],
    "psycopg2": [("connect", EffectKind.DATABASE, _never)],
    "psycopg": [("connect", EffectKind.DATABASE, _never)],
    "MySQLdb": [("connect", EffectKind.DATABASE, _never)],
    "pyodbc": [("connect", EffectKind.DATABASE, _never)],
}


def watch(watcher: Watcher) -> None:
    """Let this process's watcher know of them."""
    Finder(EVENTS, {name: [partial(_patch, watcher=watcher)] for name in _FUNCTIONS}).install()


def _patch(module: ModuleType, _: Events, watcher: Watcher) -> None:
    for name, kind, is_off in _FUNCTIONS[module.__name__]:
        if hasattr(module, name):
            wrap(module, name, partial(_noted, watcher=watcher, what=f"{module.__name__}.{name}", kind=kind, is_off=is_off))


def _noted(
    original: Callable[..., Any],
    watcher: Watcher,
    what: str,
    kind: EffectKind,
    is_off: Callable[[Mapping[str, Any]], bool],
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):  # never the script's trouble; a refusal is a BaseException
            if blame := Blame.of(sys._getframe(1)):
                watcher.note(blame, EffectKind.HARMLESS if is_off(kwargs) else kind, what)
        return original(*args, **kwargs)

    return call
