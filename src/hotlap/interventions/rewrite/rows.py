"""A loop over the rows of a batch, in the loss, as one operation on the whole batch."""

import ast

import libcst as cst

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch


def scattered_rows(code: Code, line: int) -> Edits:
    """`for i in range(n): x[i].index_add_(0, places[i], values[i])`, as C51's projection has it, as `x.scatter_add_(1, ...)`.

    The same sums in the same order, row by row.
    """
    around = [node for node in code.enclosing(line) if isinstance(node, ast.For)]
    loop = around[-1] if around else None
    if loop is None or not isinstance(loop.target, ast.Name) or loop.orelse:
        return []
    calls = [_scatter(part, loop.target.id) for part in loop.body]
    if not calls or None in calls or not _counts_rows(loop.iter):
        return []
    first, *others = [cst.parse_statement(str(call)) for call in calls]

    def replaced(old: cst.For) -> cst.FlattenSentinel[cst.BaseStatement]:
        return cst.FlattenSentinel([first.with_changes(leading_lines=old.leading_lines), *others])

    patch = Patch(code)
    patch.statement(loop, replaced)
    return patch.edits()


def _counts_rows(over: ast.expr) -> bool:
    """range(n), range(len(x)), range(x.size(0)) or range(x.shape[0])"""
    return isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and len(over.args) == 1


def _scatter(part: ast.stmt, index: str) -> str | None:
    """`x[i].index_add_(0, places[i].long(), values[i])` for all rows; None if the statement is something else."""
    if not (isinstance(part, ast.Expr) and isinstance(call := part.value, ast.Call) and isinstance(call.func, ast.Attribute)):
        return None
    if call.func.attr != "index_add_" or len(call.args) != 3 or call.keywords or ast.unparse(call.args[0]) != "0":
        return None
    rows = [_rows(each, index) for each in (call.func.value, *call.args[1:])]
    return f"{rows[0]}.scatter_add_(1, {rows[1]}, {rows[2]})" if None not in rows else None


def _rows(part: ast.expr, index: str) -> str | None:
    """`x` of `x[i]`, `x.long()` of `x[i].long()`."""
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "long" and not part.args:
        inner = _rows(part.func.value, index)
        return f"{inner}.long()" if inner else None
    if not (isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name) and part.slice.id == index):
        return None
    return ast.unparse(part.value)
