"""The words of a command line as flags (tyro): of a verb, and beside them those of a system's config."""

import dataclasses
import inspect
import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

from hotlap.core.errors import UsageError
from hotlap.record.run import load

_BORDER = re.compile(r"[─-]{4}")  # of the box; where the terminal knows no such characters, of dashes


def parse(kind: type, verb: str, argv: list[str]) -> Any:
    """The verb's flags. tyro draws its complaints as a box; we say the same in one line."""
    import tyro

    complaint = StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(kind, prog=f"hotlap {verb}", args=argv, description=inspect.cleandoc(kind.__doc__ or ""))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        lines = [line.strip("│| ") for line in complaint.getvalue().splitlines() if not _BORDER.search(line)]
        message = " ".join(line for line in lines if line and not line.startswith("For full helptext"))
        message = message.partition(" Argument helptext:")[0]
        raise UsageError(f"{message or complaint.getvalue().strip()} (hotlap {verb} --help lists the flags)") from None


def with_config(kind: type, argv: Sequence[str]) -> type:
    """The verb's flags and, beside them, those of the system's config: the preset's values are the defaults.

    The target and the preset (or the run to resume) decide which flags exist, so they are looked up before parsing.
    """
    import tyro

    from hotlap.systems import configs, names

    if not argv or argv[0].startswith("-"):
        target = next((argument for argument in argv if argument in names()), names()[0])
        if not {"-h", "--help"} & set(argv) and target not in argv:
            raise UsageError(f"name a target first: hotlap {kind.__name__.lower()} TARGET; targets: {', '.join(names())}")
    else:
        target = argv[0]
    preset, resume = value_of("--preset", argv), value_of("--resume", argv)
    if resume and (preset or value_of("--out", argv)):
        raise UsageError("--resume goes on in the run's own folder with its own config: leave out --preset and --out")
    system = configs.system(target, value_of("--algo", argv) or (configs.saved_algorithm(resume) if resume else None))
    config = configs.saved_config(system, resume) if resume else system.preset(preset)
    saved = load(resume).header.training.options if resume else {}  # how often to evaluate and the like, as it was
    annotation = tyro.conf.OmitArgPrefixes[type(config)]  # type: ignore[misc,valid-type]
    field = ("config", annotation, dataclasses.field(default=config))
    kept = [(f.name, f.type, dataclasses.field(default=saved[f.name])) for f in dataclasses.fields(kind) if f.name in saved]
    combined = dataclasses.make_dataclass(kind.__name__, [*kept, field], bases=(kind,), frozen=True)
    combined.__doc__ = kind.__doc__
    return combined


def is_script(argv: Sequence[str]) -> bool:
    """Whether the target is a script or `-m module` rather than a system."""
    return bool(argv) and (argv[0] == "-m" or argv[0].endswith(".py"))


def value_of(flag: str, argv: Sequence[str]) -> str | None:
    """The value of a flag, before anything is parsed: the last one, as parsers have it."""
    value = None
    for i, argument in enumerate(argv):
        if argument == flag and i + 1 < len(argv):
            value = argv[i + 1]
        elif argument.startswith(f"{flag}="):
            value = argument.removeprefix(f"{flag}=")
    return value
