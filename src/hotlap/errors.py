"""Errors that a user can cause or mend. The message is one line; `exit_code` is what the command ends with."""


class HotlapError(Exception):
    exit_code = 2


class UsageError(HotlapError):
    """Wrong flags or input."""


class RecordError(HotlapError):
    """A record or checkpoint that cannot be read or written."""


class KernelError(HotlapError):
    """A kernel that cannot be built or loaded on this machine."""


class TargetFailed(HotlapError):
    """What was being measured or trained raised an error of its own; its record is kept."""

    exit_code = 1
