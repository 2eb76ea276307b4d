"""A script's own flags, found in its `--help` and in its code; and the fields of a system's config."""

import ast
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.core.errors import UsageError
from hotlap.interventions.code import Code

_PARSERS = re.compile(r"^\s*(?:import|from)\s+(argparse|tyro|click|hydra|fire|typer|absl)\b", re.MULTILINE)
_FLAG = re.compile(r"(?<![\w-])(--[A-Za-z][\w.-]*)")
_DEFAULT = re.compile(r"[(\[]default[:=]?\s*([^)\]]+)[)\]]")
PATIENCE = 60.0  # seconds that `--help` may take: it imports what the script imports
LONGEST = 1 << 20  # bytes of help


@dataclass(frozen=True)
class Knob:
    flag: str
    default: str | None = None
    field: str | None = None  # of a system's config

    def set(self, value: object) -> dict[str, Any]:
        """What an intervention needs to set it: a field, or words for the command line; hydra's have no dashes."""
        if self.field:
            return {"config": {self.field: value}}
        return {"arguments": (self.flag, str(value)) if self.flag.startswith("-") else (f"{self.flag}={value}",)}


def knobs_of_system(config: Mapping[str, Any]) -> list[Knob]:
    """The numbers of a system's config."""
    return [
        Knob(f"--{name.replace('_', '-')}", f"{value:g}", name)
        for name, value in config.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def knobs_of(script: str, module: bool, codes: Mapping[str, Code]) -> list[Knob]:
    """The flags of a script that parses its command line; none if it does not."""
    text = "" if module else Path(script).read_text(errors="replace")
    if not _PARSERS.search(text) and not any(_PARSERS.search(code.text) for code in codes.values()):
        return []
    known = dict(pair for code in [Code(text), *codes.values()] for pair in _in_code(code))
    shown = parse_help(_help_of([sys.executable, *(["-m"] if module else []), script, "--help"]))
    return [Knob(k.flag, k.default or known.get(k.flag)) for k in shown] or [Knob(*pair) for pair in known.items()]


def _help_of(command: Sequence[str]) -> str:
    """What a script prints when asked for help; nothing if it fails, takes too long or prints without end."""
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        return ""
    assert child.stdout is not None
    timer = threading.Timer(PATIENCE, _end, [child])  # a read from a pipe has no timeout of its own
    timer.start()
    with child:
        try:
            text = child.stdout.read(LONGEST + 1)
            if len(text) > LONGEST:
                return ""
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # not yet reaped, so that its id stays its own
        finally:
            _end(child)
            timer.cancel()
        return text.decode(errors="replace") if child.wait() == 0 else ""


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a script and the processes that it has started; its session is its own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def parse_help(text: str) -> list[Knob]:
    """Flags and their defaults as argparse, tyro and click print them; `key: value` lines as hydra does."""
    flags: dict[str, str | None] = {}
    flag = None
    for line in text.splitlines():
        if names := _FLAG.findall(line.partition("  ")[0] if line.startswith(" ") and "  " not in line[:3] else line):
            flag = next((name for name in names if not name.startswith("--no-")), names[0]).rstrip(".,")
            flags.setdefault(flag, None)
        if flag and (default := _DEFAULT.search(line)) and flags[flag] is None:
            flags[flag] = default.group(1).strip().strip("'\"")
    if "Powered by Hydra" in text:
        for line in text.splitlines():
            if match := re.match(r"^(\w+): (\S+)$", line):
                flags[match.group(1)] = match.group(2)
    flags.pop("--help", None)
    return [Knob(name, default) for name, default in flags.items()]


def _in_code(code: Code) -> list[tuple[str, str | None]]:
    """Flags and defaults that are written out: `add_argument("--x", default=1)`, fields of a dataclass for tyro."""
    known: list[tuple[str, str | None]] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("add_argument", "option")):
            flags = [a.value for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith("--")]
            default = next((ast.unparse(k.value) for k in node.keywords if k.arg == "default"), None)
            known += [(str(flag), default) for flag in flags[:1]]
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
            fields = [f for f in node.body if isinstance(f, ast.AnnAssign) and f.value is not None]
            known += [
                (f"--{ast.unparse(f.target).replace('_', '-')}", ast.unparse(f.value))  # type: ignore[arg-type]
                for f in fields
            ]
    return known


def find(knobs: Sequence[Knob], name: str) -> Knob | None:
    """The first flag whose name is like this."""
    return next((knob for knob in knobs if re.search(name, knob.flag.strip("-").replace("-", "_"), re.IGNORECASE)), None)


def parse(text: str) -> tuple[str, Knob, list[str]]:
    """A knob as the user names it, "minibatch=--minibatch-size:64,128,256": its role, its flag, the values to try."""
    role, equals, rest = text.partition("=")
    flag, colon, values = rest.partition(":")
    choices = [value.strip() for value in values.split(",")]
    if not equals or not colon or not role or not flag or not all(choices):
        raise UsageError(f"--knob {text!r} must look like minibatch=--minibatch-size:64,128,256")
    return role.strip(), Knob(flag.strip()), choices
