"""The what-if curve of a worker's answer: what a step returned, sent through a pipe and back, or just handed over."""

from __future__ import annotations

import pickle
import threading
from typing import Any

from hotlap.probe.timing import Form, Stopwatch
from hotlap.record.what_if import IN_PROCESS, THROUGH_PIPE, Change, CostCurve

STEP, STOP = b"step", b"stop"


def pipe_curve(result: Any, num_envs: int, stopwatch: Stopwatch) -> CostCurve | None:
    """None if no step was seen."""
    if result is None:
        return None
    from multiprocessing import Pipe  # here: the script may never need it

    payload = of_one(result, num_envs)
    size = len(pickle.dumps(payload))
    questions, ask = Pipe(duplex=False)  # plain pipes: a duplex one is a socket, which a guard might take for the network
    answers, answer = Pipe(duplex=False)

    def worker() -> None:
        while questions.recv_bytes() != STOP:
            answer.send_bytes(
                pickle.dumps(payload)
            )  # plain pickle: that of multiprocessing would move tensors to shared memory

    def asked() -> None:
        ask.send_bytes(STEP)
        pickle.loads(answers.recv_bytes())  # noqa: S301 - its own bytes

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()
    try:
        costs = stopwatch.costs([Form(THROUGH_PIPE, float(size), asked), Form(IN_PROCESS, 0.0, lambda: payload)], waits=True)
    finally:
        ask.send_bytes(STOP)
        thread.join(1.0)
        for end in (questions, ask, answers, answer):
            end.close()
    return CostCurve(Change.PIPE, f"{size:,} bytes", costs)


def of_one(result: Any, num_envs: int) -> Any:
    """The part of a vector's step that one of its environments returned."""
    if num_envs < 2 or not isinstance(result, tuple):
        return result
    return tuple(_first(part, num_envs) for part in result)


def _first(part: Any, num_envs: int) -> Any:
    if isinstance(part, dict):
        return {key: _first(value, num_envs) for key, value in part.items()}
    try:
        return part[0] if len(part) == num_envs else part
    except TypeError:
        return part
