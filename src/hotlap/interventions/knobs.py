"""A script's own flags, found in its `--help` and in its code; and the fields of a system's config."""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotlap.core.errors import UsageError
from hotlap.interventions.code import Code

_PARSERS = re.compile(r"^\s*(?:import|from)\s+(argparse|tyro|click|hydra|fire|typer|absl)\b", re.MULTILINE)
_FLAG = re.compile(r"(?<![\w-])(--[A-Za-z][\w.-]*)")
_DEFAULT = re.compile(r"[(\[]default[:=]?\s*([^)\]]+)[)\]]")


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


def knobs_of(codes: Mapping[str, Code], help_text: Callable[[], str]) -> list[Knob]:
    """The flags of a script that parses its command line, found in its help and in its code; none if it does not.

    A script that parses nothing is not asked for its help: it would not understand, and train.
    """
    if not any(_PARSERS.search(code.text) for code in codes.values()):
        return []
    known = dict(pair for code in codes.values() for pair in _in_code(code))
    shown = parse_help(help_text())
    return [Knob(k.flag, k.default or known.get(k.flag)) for k in shown] or [Knob(*pair) for pair in known.items()]


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
