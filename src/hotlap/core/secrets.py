"""Keeps secrets out of records: the values of flags and variables whose names look like a token, a password or a key.

A record is shared, sent to colleagues, committed. `train.py --token abc` is kept there as `train.py --token ***`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

MASK = "***"

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = {"secret", "secrets", "password", "passwords", "passwd", "passphrase", "pwd", "credential", "credentials"}
_ALWAYS |= {"apikey", "auth", "authorization", "bearer"}
_KEYS = {"api", "access", "private", "secret", "auth", "wandb", "hf", "ssh", "encryption", "account", "service"}
_FLAG = re.compile(r"-{1,2}[A-Za-z]")
_ASSIGNMENT = re.compile(r"(?P<name>[-+]{0,2}[A-Za-z_][\w.\-/]*)(?P<equals>=|:=)(?P<value>.*)", re.DOTALL)
_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]*://)(?P<login>[^/@\s]*:[^/@\s]+)@", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether a flag or variable of this name holds a secret. `--hf-token` does; `--max-tokens` and `--tokenizer` do not."""
    parts = [part.lower() for part in _PART.findall(name)]
    if not parts:
        return False
    if _ALWAYS.intersection(parts) or parts[-1] == "token":
        return True
    return any(parts[i] in _KEYS and parts[i + 1] in ("key", "keys") for i in range(len(parts) - 1))


def masked(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command line with secret values replaced: `--token X`, `--token=X`, `api_key=X`, `https://me:X@host`."""
    result: list[str] = []
    expects_secret = False
    for word in arguments:
        if expects_secret and not _FLAG.match(word):
            result.append(MASK)
            expects_secret = False
            continue
        assignment = _ASSIGNMENT.fullmatch(word)
        expects_secret = assignment is None and bool(_FLAG.match(word)) and looks_secret(word)
        if assignment and looks_secret(assignment["name"]):
            result.append(f"{assignment['name']}{assignment['equals']}{MASK}")
        else:
            result.append(_LOGIN.sub(rf"\g<scheme>{MASK}@", word))
    return result


def masked_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with secret values replaced."""
    return {name: MASK if looks_secret(name) else _LOGIN.sub(rf"\g<scheme>{MASK}@", value) for name, value in variables.items()}


def masked_command(command: str) -> str:
    """A command line, written as one string, with secret values replaced."""
    words = shlex.split(command)
    hidden = masked(words)
    # Quoting is only redone where something was replaced. The mask itself stays readable: no quotes around it.
    return command if hidden == words else " ".join(_quoted(word) for word in hidden)


def has_mask(command: str) -> bool:
    """Whether a recorded command line lost a value to masking, so that it cannot be run again as it is."""
    return MASK in command


def _quoted(word: str) -> str:
    before, mask, after = word.partition(MASK)
    return f"{shlex.quote(before) if before else ''}{mask}{shlex.quote(after) if after else ''}" if mask else shlex.quote(word)
