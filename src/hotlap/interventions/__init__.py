"""Interventions: reversible changes to an unmodified script, made while it runs.

A change is a function `(change: Change, **options) -> None` that says what to patch; `CHANGES` lists them all. The variable
HOTLAP_INTERVENE holds those that a process should make, as JSON: [[name, {options}], ...]; worker processes of the script read
it too. What a script has not imported yet is changed once it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from hotlap.interventions import beside, kernels, layouts, precision, source, switches
from hotlap.interventions.changing import APPLIED, Change, changed

__all__ = ["APPLIED", "CHANGES", "VARIABLE", "intervened", "making", "variable"]

if TYPE_CHECKING:
    from hotlap.record.intervention import RuntimeChange

VARIABLE = "HOTLAP_INTERVENE"

CHANGES: dict[str, Callable[..., None]] = {
    "affinity": switches.affinity,
    "anomaly-off": switches.anomaly_off,
    "autocast": precision.autocast,
    "checkpoints-off": beside.checkpoints_off,
    "compile": switches.compiled,
    "compile-off": switches.compile_off,
    "cv2-threads": switches.cv2_threads,
    "evaluation-rarer": beside.evaluation_rarer,
    "float32": precision.float32,
    "flush-off": beside.flush_off,
    "foreach": switches.foreach,
    "gae-kernel": kernels.gae_kernel,
    "infos-empty": layouts.infos_empty,
    "logs-off": beside.logs_off,
    "matmul": precision.matmul,
    "one-process": layouts.one_process,
    "peel": layouts.peel,
    "render-off": beside.render_off,
    "seed": switches.seed,
    "sleep-off": beside.sleep_off,
    "source": source.replaced,
    "threads": switches.threads,
    "validate-off": switches.validate_off,
    "workers": layouts.worker_processes,
}


def variable(wanted: Iterable[RuntimeChange]) -> dict[str, str]:
    """The environment of a process that should make these changes."""
    return {VARIABLE: json.dumps([[change.name, change.options] for change in wanted])}


def making(name: str, **options: Any) -> AbstractContextManager[Change]:
    """One change, for as long as the context lasts."""
    return changed(name, CHANGES[name], **options)


@contextmanager
def intervened() -> Iterator[None]:
    """The changes that this process's environment asks for."""
    with ExitStack() as stack:
        for name, options in json.loads(os.environ.get(VARIABLE, "[]")):
            stack.enter_context(making(name, **options))
        yield
