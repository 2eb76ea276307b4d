"""Interventions: reversible changes to an unmodified script, made while it runs.

Each is a small context manager. HOTLAP_INTERVENE holds the list that a process should make, as JSON: [[name, {options}], ...];
worker processes of the script read it too. What a script has not imported yet is changed once it is.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from hotlap.interventions import beside, kernels, layouts, source, switches
from hotlap.interventions.changing import Change

VARIABLE = "HOTLAP_INTERVENE"

CHANGES: dict[str, Callable[..., AbstractContextManager[object]]] = {
    "affinity": switches.affinity,
    "anomaly-off": switches.anomaly_off,
    "autocast": switches.autocast,
    "checkpoints-off": beside.checkpoints_off,
    "compile": switches.compiled,
    "compile-off": switches.compile_off,
    "cv2-threads": switches.cv2_threads,
    "evaluation-rarer": beside.evaluation_rarer,
    "float32": switches.float32,
    "flush-off": beside.flush_off,
    "foreach": switches.foreach,
    "gae-kernel": kernels.gae_kernel,
    "infos-empty": layouts.infos_empty,
    "logs-off": beside.logs_off,
    "matmul": switches.matmul,
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

Wanted = Sequence[tuple[str, dict[str, Any]]]


def variable(wanted: Wanted) -> dict[str, str]:
    """The environment of a process that should make these changes."""
    return {VARIABLE: json.dumps([[name, options] for name, options in wanted])}


@contextmanager
def intervened() -> Iterator[None]:
    """The changes that this process's environment asks for."""
    with ExitStack() as stack:
        for name, options in json.loads(os.environ.get(VARIABLE, "[]")):
            Change.naming = name
            stack.enter_context(CHANGES[name](**options))
        yield
