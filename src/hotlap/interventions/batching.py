"""Transitions that a loop pushes one by one, written in one go: a change to the user's code."""

import ast

import libcst as cst

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch


def batched_pushes(code: Code, line: int) -> Edits:
    """`for i in ...: buffer.push(x[i].item(), ...)`: a method that stores a batch, called before the loop instead.

    Only for a class of the same file whose `push` does nothing but store its arguments at a position and move that on.
    """
    loop = next((node for node in reversed(code.loops(line)) if isinstance(node, ast.For)), None)
    if loop is None or not isinstance(loop.target, ast.Name):
        return []
    push = next((part for part in loop.body if _is_push(part)), None)
    if push is None:
        return []
    call = push.value  # type: ignore[attr-defined]
    columns = [_column(argument, loop.target.id) for argument in call.args]
    method = _method(code, call.func.attr)
    if method is None or None in columns or call.keywords or len(method.args.args) != len(columns) + 1:
        return []
    body = _batched(method)
    if body is None:
        return []
    names = [argument.arg for argument in method.args.args[1:]]
    lines = [f"def {method.name}_all(self, {', '.join(names)}):", f"count = len({names[0]})", *body]
    patch = Patch(code)
    patch.after(method, "", "\n    ".join(lines))
    stored = f"{ast.unparse(call.func.value)}.{method.name}_all({', '.join(map(str, columns))})"
    patch.before(loop, stored, comments=patch.comments(push))
    if len(loop.body) > 1:
        patch.statement(push, lambda _: cst.RemovalSentinel.REMOVE)
    else:
        bare = cst.TrailingWhitespace()  # its comments are above the new call now
        patch.statement(push, lambda _: cst.SimpleStatementLine([cst.Pass()], trailing_whitespace=bare))
    return patch.edits()


def _is_push(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Call) and isinstance(part.value.func, ast.Attribute)


def _column(argument: ast.expr, index: str) -> str | None:
    """The whole of which an argument is the i-th: `x` of `x[i].cpu().item()`."""
    while isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and not argument.args:
        if argument.func.attr not in ("item", "numpy", "cpu", "detach"):
            return None
        argument = argument.func.value
    row = isinstance(argument, ast.Subscript) and isinstance(argument.slice, ast.Name) and argument.slice.id == index
    return ast.unparse(argument.value) if row else None  # type: ignore[attr-defined]


def _method(code: Code, name: str) -> ast.FunctionDef | None:
    classes = [node for node in code.tree.body if isinstance(node, ast.ClassDef)]
    methods = [part for c in classes for part in c.body if isinstance(part, ast.FunctionDef) and part.name == name]
    return methods[0] if len(methods) == 1 else None


def _batched(method: ast.FunctionDef) -> list[str] | None:
    """The statements of a method for a batch; None if it does more than store and move on."""
    arguments = {argument.arg for argument in method.args.args[1:]}
    stored: list[str] = []
    moved: list[str] = []
    position = None
    for part in method.body:
        if not (isinstance(part, ast.Assign) and len(part.targets) == 1):
            return None
        target, value = part.targets[0], part.value
        if isinstance(target, ast.Subscript) and isinstance(value, ast.Name) and value.id in arguments and not moved:
            if position not in (None, ast.unparse(target.slice)):
                return None
            position = ast.unparse(target.slice)
            stored.append(f"{ast.unparse(target.value)}[rows] = {value.id}")
        elif isinstance(target, ast.Attribute) and f"{ast.unparse(target)} + 1" in ast.unparse(value):
            moved.append(f"{ast.unparse(part).replace(' + 1', ' + count')}")
        else:
            return None
    ring = next(
        (text.rpartition("% ")[2] for text in moved if position and text.startswith(f"{position} = ") and "%" in text), None
    )
    if not stored or position is None or ring is None:
        return None
    return [f"rows = [({position} + k) % {ring} for k in range(count)]", *stored, *moved]
