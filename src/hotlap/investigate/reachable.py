"""Which calls of a project run whenever the script runs, read from its text.

A call counts if it is made when a module is imported, or in a function whose name is used by code that counts. It does not
count behind a flag: inside an `if` (or after an `if ...: return`) whose test is about arguments, a config, the environment
or a constant, and in `except` blocks. Names are compared without their owners, so this sees too much rather than too
little. What it leaves out, hotlap's audit hook stops when it really happens.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from hotlap.interventions.code import Code

_FLAGS = {"args", "arg", "cfg", "config", "conf", "opt", "opts", "options", "flags", "params", "hparams", "hp", "settings"}
_FLAGS |= {"environ", "getenv", "argv", "debug", "track", "upload", "wandb", "online", "dry_run", "verbose"}
_PREFIXES = ("use_", "enable", "no_", "with_", "should_", "track_", "upload_", "log_to_", "save_to_")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class _Part:
    """The body of a module or of a function: calls and names in it that no flag guards."""

    file: str
    calls: list[ast.Call] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    defines: str | None = None  # None: the module itself


def calls(codes: Mapping[str, Code]) -> Iterator[tuple[str, ast.Call]]:
    """(file, call) of what runs. The first file is the script, whose `__main__` block runs too."""
    parts: list[_Part] = []
    for number, (name, code) in enumerate(codes.items()):
        _read(code.tree.body, _Part(name), parts, is_script=number == 0)
    waiting = [part for part in parts if part.defines is None]
    done: set[int] = set()
    used: set[str] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in done:
            continue
        done.add(id(part))
        used |= part.names
        waiting += [other for other in parts if id(other) not in done and (other.defines or "") in used]
    for part in parts:
        if id(part) in done:
            yield from ((part.file, call) for call in part.calls)


def _read(body: list[ast.stmt], part: _Part, parts: list[_Part], is_script: bool, owner: str | None = None) -> None:
    if part not in parts:
        parts.append(part)
    for statement in body:
        if isinstance(statement, Definition):
            _read_definition(statement, part, parts, is_script, owner)
        elif isinstance(statement, ast.If):
            test = _test(statement.test, is_script)
            if test is not _Test.FLAG:
                _note(statement.test, part)
            if test in (_Test.RUNS, _Test.MAIN):
                _read(statement.body, part, parts, is_script, owner)
            if test is _Test.RUNS:
                _read(statement.orelse, part, parts, is_script, owner)
            if test is _Test.FLAG and _leaves(statement.body):
                return  # what follows runs only with the flag
        elif isinstance(statement, ast.Try):
            for block in (statement.body, statement.orelse, statement.finalbody):
                _read(block, part, parts, is_script, owner)
        elif isinstance(statement, ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith):
            for name, value in ast.iter_fields(statement):
                if name not in ("body", "orelse"):
                    for node in value if isinstance(value, list) else [value]:
                        if isinstance(node, ast.AST):
                            _note(node, part)
            _read(statement.body, part, parts, is_script, owner)
            _read(getattr(statement, "orelse", []), part, parts, is_script, owner)
        elif isinstance(statement, ast.Match):
            for case in statement.cases:
                _read(case.body, part, parts, is_script, owner)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            _note(statement, part)


def _read_definition(node: Definition, part: _Part, parts: list[_Part], is_script: bool, owner: str | None) -> None:
    for decorator in node.decorator_list:
        _note(decorator, part)
    if isinstance(node, ast.ClassDef):
        _read(node.body, part, parts, is_script, node.name)
        return
    is_special = owner is not None and node.name.startswith("__")
    _read(node.body, _Part(part.file, defines=owner if is_special else node.name), parts, is_script)


def _note(node: ast.AST, part: _Part) -> None:
    """The calls and names of an expression or a simple statement that no flag guards."""
    if isinstance(node, ast.IfExp) and _test(node.test, False) is _Test.FLAG:
        return
    if isinstance(node, ast.BoolOp) and _test(node.values[0], False) is _Test.FLAG:
        return
    if isinstance(node, ast.Call):
        part.calls.append(node)
    if isinstance(node, ast.Name):
        part.names.add(node.id)
    elif isinstance(node, ast.Attribute):
        part.names.add(node.attr)
    for child in ast.iter_child_nodes(node):
        _note(child, part)


class _Test(Enum):
    """What the test of an `if` is about."""

    RUNS = auto()
    FLAG = auto()
    MAIN = auto()
    NEVER = auto()


def _test(test: ast.expr, is_script: bool) -> _Test:
    text = ast.unparse(test)
    if "__name__" in text and "__main__" in text:
        return _Test.MAIN if is_script else _Test.NEVER
    if isinstance(test, ast.Constant):
        return _Test.RUNS if test.value else _Test.FLAG
    if isinstance(test, ast.BoolOp):
        are_flags = [_test(value, is_script) is _Test.FLAG for value in test.values]
        return _Test.FLAG if (any if isinstance(test.op, ast.And) else all)(are_flags) else _Test.RUNS
    if any(isinstance(node, ast.Mod) for node in ast.walk(test)):  # every so many steps
        return _Test.RUNS
    words = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    is_flag = any(word.lower() in _FLAGS or word.startswith(_PREFIXES) or _is_constant(word) for word in words)
    return _Test.FLAG if is_flag else _Test.RUNS


def _is_constant(word: str) -> bool:
    return word.isupper() and len(word) > 1


def _leaves(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise | ast.Continue):
        return True
    return (
        isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and ast.unparse(last.value.func) in ("sys.exit", "exit")
    )
