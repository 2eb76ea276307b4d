"""PufferLib."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hotlap.core.paths import RESET, STEP, WAIT
from hotlap.probe.events import Events
from hotlap.probe.framework import Framework, VectorLayout
from hotlap.probe.hooks.patching import Around, wrap
from hotlap.probe.kinds import RESETTING, STEPPED, WAITED


def _patch_puffer(module: ModuleType, events: Events) -> None:
    """`send` gives actions, `recv` returns their results: in one process `send` steps, with workers `recv` waits."""
    sent: set[int] = set()  # the first `recv` after a reset answers no action

    def around(path: str, name: str) -> Around:
        def decorate(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(env: Any, *args: Any, **kwargs: Any) -> Any:
                if events.inside or not (begin := events.environment(path)):
                    return original(env, *args, **kwargs)
                steps = 0
                try:
                    result = original(env, *args, **kwargs)
                    if name == "send":
                        sent.add(id(env))
                    elif name == "recv" and id(env) in sent:
                        steps = int(result[6].sum())
                    return result
                finally:
                    events.stepped({RESET: RESETTING, STEP: STEPPED, WAIT: WAITED}[path], begin, id(env), steps)

            return call

        return decorate

    events.cannot_pause = True
    for kind in ("Serial", "Multiprocessing", "Ray"):
        if owner := getattr(module, kind, None):
            wrap(owner, "async_reset", around(RESET, "reset"))
            wrap(owner, "send", around(STEP, "send"))
            wrap(owner, "recv", around(STEP if kind == "Serial" else WAIT, "recv"))


FRAMEWORK = Framework(
    "pufferlib",
    ("3.0", "3.1"),
    layouts=(VectorLayout("pufferlib.vector", workers="Multiprocessing", one_process="Serial", swappable=False),),
    extra={"pufferlib.vector": _patch_puffer},
)
