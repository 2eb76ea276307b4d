"""Logging: TensorBoard, Weights & Biases, Python's own logging, and printing."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from hotlap.core import stages
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import Patch, as_region, wrap


def _logging(owner: str, *names: str) -> Patch:
    def patch(module: ModuleType, events: Events) -> None:
        for name in names:
            wrap(getattr(module, owner), name, as_region(events, stages.LOG))

    return patch


_patch_writer = _logging(
    "SummaryWriter", "add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush", "close"
)
PATCHES: dict[str, Patch] = {
    "torch.utils.tensorboard.writer": _patch_writer,
    "tensorboardX.writer": _patch_writer,
    "wandb.sdk.wandb_run": _logging("Run", "log", "finish", "save"),
    "logging": _logging("Logger", "callHandlers"),
}


class Output(io.TextIOWrapper):
    """Standard output or error, where writing is logging. `print` itself stays: numba and torch.compile know it by identity."""

    def __init__(self, stream: io.TextIOWrapper, events: Events) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.mode = "w"  # type: ignore[misc]
        self._write = as_region(events, stages.LOG)(super().write)

    def write(self, text: str) -> int:
        return int(self._write(text))

    def close(self) -> None:
        """The file stays the original's; the script may hold this one until the very end."""
        self.flush()


@contextmanager
def watched_output(events: Events) -> Iterator[None]:
    """Standard output and error go the same way, and what writing to them costs is seen."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    ours = {name: Output(stream, events) for name, stream in streams.items() if type(stream) is io.TextIOWrapper}
    for name, stream in ours.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in ours.items():
            stream.flush()
            if getattr(sys, name) is stream:
                setattr(sys, name, streams[name])
