"""Command lines that a report offers as the next step: quoted, so that they run as they are printed."""

import shlex
from collections.abc import Sequence

from hotlap.core import secrets
from hotlap.record.machine import Machine, PythonChoice
from hotlap.target.parsing import is_script


def hotlap(verb: str, *words: str) -> str:
    return shlex.join(["hotlap", verb, *words])


def python_flags(machine: Machine) -> list[str]:
    """The `--python` that a script was run with."""
    asked_for = machine.python_path if machine.python_choice is PythonChoice.FLAG else None
    return ["--python", asked_for] if asked_for else []


def on_target(verb: str, command: str, flags: Sequence[str] = ()) -> str | None:
    """A verb on a target, given as the record keeps it: "train.py --lr 1". None where the record has masked a secret in it."""
    if secrets.has_mask(command):
        return None
    target, *arguments = words = shlex.split(command)
    if not is_script(words):
        return hotlap(verb, *words, *flags) if verb == "profile" else hotlap(verb, command, *flags)
    if target == "-m":
        target, *arguments = arguments
        return hotlap(verb, "-m", target, *flags, *(["--", *arguments] if arguments else []))
    return hotlap(verb, target, *flags, *(["--", *arguments] if arguments else []))
