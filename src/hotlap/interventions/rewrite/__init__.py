"""Changes to the user's code that hotlap knows how to make.

A rewrite is a function `(code, line, ...) -> Edits` or `(code, ...) -> Edits`. It gives the lines to replace in the file as it
is, or nothing where it does not fit. Rewrites are tried without touching the file (`source.py`), and written as a unified diff
only when the user asks for it.
"""

from hotlap.interventions.rewrite.acting import detached, hoisted_items, no_grad, stacked_tensor
from hotlap.interventions.rewrite.advantages import vectorised_returns
from hotlap.interventions.rewrite.jit import jitted
from hotlap.interventions.rewrite.loops import (
    fewer_rounds,
    left_out,
    numpy_loop,
    rarer,
    rarer_condition,
    recorded,
    replayed,
    skipped_loop,
)
from hotlap.interventions.rewrite.numbers import number
from hotlap.interventions.rewrite.replays import ring
from hotlap.interventions.rewrite.rows import scattered_rows
from hotlap.interventions.rewrite.switches import anomaly_off, float32, renamed, threads, validate_off
from hotlap.interventions.rewrite.targets import clipped_at_once, fused_optimizers, soft_update

__all__ = [
    "anomaly_off",
    "clipped_at_once",
    "detached",
    "fewer_rounds",
    "float32",
    "fused_optimizers",
    "hoisted_items",
    "jitted",
    "left_out",
    "no_grad",
    "number",
    "numpy_loop",
    "rarer",
    "rarer_condition",
    "recorded",
    "renamed",
    "replayed",
    "ring",
    "scattered_rows",
    "skipped_loop",
    "soft_update",
    "stacked_tensor",
    "threads",
    "validate_off",
    "vectorised_returns",
]
