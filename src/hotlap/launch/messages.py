"""What a child says to hotlap while it runs: JSON lines over a pipe.

Standard library only: the child writes them in the user's interpreter.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from typing import Any, Union

from hotlap.record.blocks import Block

MOST_BYTES = 1 << 20  # of a line


@dataclass(frozen=True)
class Ready:
    """Warm-up is over; it waits for its first block."""

    kind = "ready"


@dataclass(frozen=True)
class BlockDone:
    """What was done in one block."""

    block: Block

    kind = "block"


@dataclass(frozen=True)
class Progress:
    """An episode that ended, or a loss, and when: after how many environment steps and seconds."""

    steps: float
    seconds: float
    return_: float | None = None
    length: int | None = None
    loss: float | None = None

    kind = "progress"


@dataclass(frozen=True)
class Failed:
    """Why the child cannot continue."""

    error: str

    kind = "error"


@dataclass(frozen=True)
class Pulse:
    """How far a profile is."""

    is_training: bool = False
    windows: int = 0
    seconds: float = 0.0  # that were measured

    kind = "pulse"


Message = Union[Ready, BlockDone, Progress, Failed, Pulse]
_KINDS = {kind.kind: kind for kind in (Ready, BlockDone, Progress, Failed, Pulse)}


def encode(message: Message) -> bytes:
    return json.dumps({"kind": message.kind, **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """A message read back; `ValueError` if it is none. A script has the pipe open too, and may write what it likes."""
    try:
        document: dict[str, Any] = json.loads(line)
        kind = _KINDS[document.pop("kind")]
        message = BlockDone(Block(**document["block"])) if kind is BlockDone else kind(**document)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a message: {error}") from None
    if isinstance(message, Progress) and not (_is_number(message.steps) and _is_number(message.seconds)):
        raise ValueError("progress needs steps and seconds")
    return message


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def keep_from_forks(descriptor: int) -> None:
    """Processes that this one starts or forks must not keep a pipe open when it dies."""
    os.set_inheritable(descriptor, False)
    owner = os.getpid()

    def close() -> None:
        if os.getppid() == owner:  # a fork of a fork has it closed already, and the number may stand for another file
            os.close(descriptor)

    os.register_at_fork(after_in_child=close)


class Sender:
    """The child's end. Processes that it forks have no say."""

    def __init__(self, descriptor: int) -> None:
        keep_from_forks(descriptor)
        self._descriptor = descriptor
        self._process = os.getpid()

    def send(self, message: Message) -> None:
        """`BrokenPipeError` when hotlap has heard enough."""
        if os.getpid() != self._process:
            return
        data = encode(message)
        while data:
            data = data[os.write(self._descriptor, data) :]
