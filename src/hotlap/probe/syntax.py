"""The names and blocks of statements, as `dataflow.py` and `forms.py` ask for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Union

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Module]
Block = list[ast.stmt]
LOOPS = (ast.For, ast.AsyncFor, ast.While)
MODULES = ("torch", "nn", "F", "np", "numpy", "random", "math", "time", "os", "plt", "wandb", "gym", "gymnasium")  # no buffers
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Span(NamedTuple):
    """Lines of one statement, and the stage they belong to."""

    first: int
    last: int
    path: str


def span(statement: ast.stmt, path: str) -> Span:
    return Span(statement.lineno, statement.end_lineno or statement.lineno, path)


def holds(statement: ast.stmt, lines: Iterable[int]) -> bool:
    return any(statement.lineno <= line <= (statement.end_lineno or statement.lineno) for line in lines)


def function_at(tree: ast.Module, name: str, first_line: int) -> Function | None:
    """The function whose code has this name and first line."""
    if name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            lines = (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
            if first_line in lines:
                return node
    return None


def followers(function: Function, of: Span) -> set[int]:
    """The lines at which statements begin that may run next after a of."""
    path = path_to(function.body, of.first)
    lines: set[int] = set()
    while path:
        block, index = path.pop()
        statement = block[index]
        if statement.lineno < of.first and isinstance(statement, LOOPS):
            lines.add(statement.lineno)
        following = next((s for s in block[index + 1 :] if s.lineno > of.last), None)
        if following is not None:
            lines.add(min((d.lineno for d in getattr(following, "decorator_list", [])), default=following.lineno))
            break
    return lines


def are_related(names: set[str], others: set[str]) -> bool:
    return touches(names, others) or touches(others, names)


def towards(function: Function, training: frozenset[int]) -> set[str]:
    """Names that what is trained on was made from: a slice of the function, backwards from where it trains."""
    wanted: set[str] = set()
    for statement in sorted(statements_in([function.body]), key=lambda s: -s.lineno):
        if blocks_of(statement) and not isinstance(statement, (ast.For, ast.AsyncFor)):
            continue
        trains = holds(statement, training)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            if trains:
                wanted |= reads(statement.iter)
        elif trains or are_related(writes(statement) | grown(statement), wanted):
            wanted |= reads(statement)
    return wanted


def path_to(body: Block, line: int) -> list[tuple[Block, int]]:
    """The statements around a line, from the outermost: the block that each is in, and its place there."""
    path: list[tuple[Block, int]] = []
    block: Block | None = body
    while block:
        found = next((i for i, s in enumerate(block) if s.lineno <= line <= (s.end_lineno or s.lineno)), None)
        if found is None:
            break
        path.append((block, found))
        inside = [b for b in blocks_of(block[found]) if b[0].lineno <= line <= (b[-1].end_lineno or 0)]
        block = inside[0] if inside else None
    return path


def owner_of(function: Function, block: Block) -> ast.AST | None:
    return next((node for node in ast.walk(function) if any(inner is block for inner in _lists(node))), None)


def _lists(node: ast.AST) -> list[Block]:
    names = ("body", "orelse", "finalbody")
    lists = [value for name in names if isinstance(value := getattr(node, name, None), list) and value]
    return lists + [handler.body for handler in getattr(node, "handlers", [])]


def blocks_of(statement: ast.stmt) -> list[Block]:
    return [] if isinstance(statement, DEFINITIONS) else _lists(statement)


def statements_in(blocks: Iterable[Block]) -> Iterator[ast.stmt]:
    for block in blocks:
        for statement in block:
            yield statement
            yield from statements_in(blocks_of(statement))


def dotted(node: ast.AST) -> str:
    """`a.b.c`, or nothing if it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def _names(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    if isinstance(node, (ast.Name, ast.Attribute)) and (name := dotted(node)):
        if isinstance(node.ctx, context):
            yield name
        return
    for child in ast.iter_child_nodes(node):
        yield from _names(child, context)


@lru_cache(maxsize=10_000)  # each statement is asked about many times while the script waits
def _all_names(node: ast.AST, context: type[ast.expr_context]) -> frozenset[str]:
    return frozenset(_names(node, context))


def reads(node: ast.AST) -> set[str]:
    reads = set(_all_names(node, ast.Load))
    return reads | writes(node) if isinstance(node, ast.AugAssign) else reads


def writes(node: ast.AST) -> set[str]:
    return set(_all_names(node, ast.Store))


def touches(names: set[str], others: set[str]) -> bool:
    """Whether one of the names is one of the others, or a part of it."""
    return any(name == other or name.startswith(f"{other}.") for name in names for other in others)


def grown(statement: ast.stmt) -> set[str]:
    """What a statement puts something into: `x` of `x.append(...)`, `x[...] = ...`."""
    bases = {dotted(n.value) for n in ast.walk(statement) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    return (bases | ({receiver(statement)} if is_dropped_call(statement) else set())) - {""}


def _call(statement: ast.stmt) -> ast.Call | None:
    value = getattr(statement, "value", None)
    return value if isinstance(value, ast.Call) else None


def is_dropped_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def callee(statement: ast.stmt) -> str:
    call = _call(statement)
    return dotted(call.func) if call else ""


def receiver(statement: ast.stmt) -> str:
    return callee(statement).rpartition(".")[0]


def called(statement: ast.stmt) -> str:
    call = _call(statement)
    return last_name(call.func) if call else ""


def last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def arguments(statement: ast.stmt) -> set[str]:
    call = _call(statement)
    return {name for part in (*call.args, *(k.value for k in call.keywords)) for name in reads(part)} if call else set()


def yields(statement: ast.stmt) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(statement))
