"""Functions of arrays and numbers, compiled with Numba."""

import ast

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, add_import

_REFUSED = (ast.FunctionDef, ast.Lambda, ast.Yield, ast.Try, ast.TryStar, ast.With)


def jitted(code: Code, line: int) -> Edits:
    """The function around a line, and the functions of its file that it calls, compiled with Numba."""
    function = code.function(line)
    if function not in code.tree.body or not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return []
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    if "random" in code.source(function) or _variables(code) & names:
        return []  # Numba has random numbers of its own, and takes globals as they are when it compiles
    if any(isinstance(node, _REFUSED) for node in ast.walk(function) if node is not function):
        return []
    patch = Patch(code)
    if any(isinstance(node, ast.Import | ast.ImportFrom) for node in code.tree.body):
        add_import(patch, "numba")
    else:
        patch.before(function, "import numba")
    helpers = {known.name: known for name in _called(function) if (known := _plain_function(code, name)) is not None}
    for each in {**helpers, function.name: function}.values():
        patch.decorate(each, "numba.njit")
    return patch.edits()


def _variables(code: Code) -> set[str]:
    """Globals of a file that are set more than once, or by a function."""
    set_once: set[str] = set()
    again = {name for node in code.walk(ast.Global) for name in node.names}  # type: ignore[attr-defined]
    for node in code.tree.body:
        if isinstance(node, ast.Assign):
            names = {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
            again |= names & set_once
            set_once |= names
    return again


def _called(function: ast.AST) -> set[str]:
    return {n.func.id for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def _plain_function(code: Code, name: str) -> ast.FunctionDef | None:
    return next((n for n in code.tree.body if isinstance(n, ast.FunctionDef) and n.name == name and not n.decorator_list), None)
