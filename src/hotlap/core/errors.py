"""Errors that a user can cause or fix. The message is one line; `exit_code` is what the command ends with."""

from __future__ import annotations


class HotlapError(Exception):
    """`details` is printed before the message: the traceback of a user's environment, for example."""

    exit_code = 2

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class UsageError(HotlapError):
    """Wrong flags or input."""


class RecordError(HotlapError):
    """A record or checkpoint that cannot be read or written."""


class KernelError(HotlapError):
    """A kernel that cannot be built or loaded on this machine."""


class EnvFailed(HotlapError):
    """An environment raised an error, hangs, or took its process with it; `details` has its traceback."""

    exit_code = 1


class TargetFailed(HotlapError):
    """What was being measured or trained raised an error of its own; its record is kept."""

    exit_code = 1


class NotFinite(HotlapError):
    """A reward, an observation, a loss or a gradient is not a number, or infinite: what and where."""

    exit_code = 1
