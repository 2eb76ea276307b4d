"""Statements that are a stage by their form, whatever their data.

- A loop backwards in time that multiplies what it computed one step later is `advantage`: returns, or an estimate of them.
- A loop over parameters that writes to them, or `load_state_dict` of another network's state, is `update/target`. Setting
  gradients to zero is `update/optimizer`.
- After training, a call on what the minibatch came from keeps its priorities: `sample`.
- In the loop that steps, a call beside all that, whose result nobody uses, belongs to no stage: drawing a plot is not sampling.

Where a function is called by name, what it does is read from the user's functions of that name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from hotlap.core import stages
from hotlap.core.paths import OPTIMIZER, TARGET
from hotlap.probe.syntax import (
    DEFINITIONS,
    MODULES,
    Block,
    Function,
    Span,
    are_related,
    arguments,
    blocks_of,
    called,
    dotted,
    holds,
    is_dropped_call,
    last_name,
    reads,
    receiver,
    span,
    statements_in,
    touches,
    towards,
)

NO_STAGE = ""
_PARAMETERS = ("parameters", "named_parameters", "state_dict", "buffers")


def spans_by_form(function: Function, known: Mapping[str, str], training: frozenset[int], steps: bool) -> list[Span]:
    """The statements of a function that are a stage by their form, or that call one of the user's functions that are (`known`).

    `training` are the lines that train, `steps` whether the function steps the environment.
    """
    spans: list[Span] = []
    wanted = towards(function, training)
    sources = {name for name in wanted if name != "self" and not are_related({name}, set(MODULES))}

    def path_of(statement: ast.stmt) -> str | None:
        path = _form(statement)
        if path is not None or blocks_of(statement):
            return path
        if called(statement) in known:
            return known[called(statement)]
        if not is_dropped_call(statement) or holds(statement, training) or called(statement) == "step":
            return None
        giver = {receiver(statement)} - {"", "self"}
        if training and statement.lineno > max(training) and arguments(statement) and are_related(giver, sources):
            return stages.SAMPLE
        used = reads(statement)
        return None if not steps or are_related(used, wanted) else NO_STAGE

    def visit(block: Block) -> None:
        for statement in block:
            if isinstance(statement, DEFINITIONS):
                continue
            path = path_of(statement)
            if path is not None:
                spans.append(span(statement, path))
                continue
            for inner in blocks_of(statement):
                visit(inner)

    visit(function.body)
    return spans


def forms_of(trees: Iterable[ast.Module]) -> dict[str, str]:
    """The user's functions that are a stage by what is written in them: name -> path."""
    forms = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _is_common(node.name) and not _trains(node):
                paths = {path for statement in statements_in([node.body]) if (path := _form(statement))}
                if len(paths) == 1:
                    forms[node.name] = paths.pop()
    return forms


def _is_common(name: str) -> bool:
    """Whether functions of this name do all sorts of things: one of them says nothing about the others."""
    return name.startswith("__") or name in ("forward", "step", "reset", "update", "main", "train")


def _form(statement: ast.stmt) -> str | None:
    if isinstance(statement, (ast.For, ast.AsyncFor)) and not _trains(statement):
        if _is_backwards(statement.iter) and _recurs(statement):
            return stages.ADVANTAGE
        if _writes_parameters(statement):
            return TARGET
    if isinstance(statement, ast.Expr) and called(statement) == "zero_grad":
        return OPTIMIZER
    if isinstance(statement, ast.Expr) and called(statement) == "load_state_dict":
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        return TARGET if any(last_name(call.func) == "state_dict" for call in calls) else None
    return None


def _trains(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and last_name(n.func) in ("backward", "step") for n in ast.walk(node))


def _is_backwards(iterated: ast.expr) -> bool:
    """`reversed(...)`, `range(n, -1, -1)` or `[::-1]`, anywhere in what a loop goes over."""
    for node in ast.walk(iterated):
        if isinstance(node, ast.Call) and last_name(node.func) == "reversed":
            return True
        if (
            isinstance(node, ast.Call)
            and last_name(node.func) == "range"
            and len(node.args) == 3
            and _is_negative(node.args[2])
        ):
            return True
        if isinstance(node, ast.Slice) and node.step is not None and _is_negative(node.step):
            return True
    return False


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _recurs(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop multiplies what it computed the last time."""
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
            return True
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {dotted(t.value if isinstance(t, ast.Subscript) else t) for target in targets for t in _parts(target)} - {
                ""
            }
            products = [n for n in ast.walk(node.value) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
            if any(touches(reads(product), names) for product in products):
                return True
    return False


def _parts(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _writes_parameters(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop over the parameters of networks writes to them; one that touches gradients clips or logs them."""
    called = {last_name(n.func) for n in ast.walk(loop.iter) if isinstance(n, ast.Call)}
    attributes = {n.attr for n in ast.walk(loop) if isinstance(n, ast.Attribute)}
    if not called.intersection(_PARAMETERS) or "grad" in attributes:
        return False
    in_place = any(name.endswith("_") and not name.endswith("__") for name in attributes)
    return in_place or any(
        isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store) for n in ast.walk(loop)
    )
