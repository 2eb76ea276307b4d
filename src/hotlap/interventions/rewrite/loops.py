"""Rewrites of functions, loops and conditions: run less often, over arrays, or not at all."""

import ast
import re

import libcst as cst

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, atom, called, comments_in, imports

STAND_IN = '__import__("hotlap.interventions.source", fromlist=["_"])'


def _for_loop(code: Code, line: int) -> ast.For | None:
    """The innermost `for` statement around a line."""
    return next((node for node in reversed(code.loops(line)) if isinstance(node, ast.For)), None)


def _decorated(code: Code, line: int, decorator: str) -> Edits:
    function = code.function(line)
    if not isinstance(function, ast.FunctionDef) or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)):
        return []  # results of generators and coroutines can be used only once
    if any(STAND_IN in code.source(known) for known in function.decorator_list):
        return []
    patch = Patch(code)
    patch.decorate(function, decorator)
    return patch.edits()


def recorded(code: Code, line: int) -> Edits:
    """The function around a line costs nothing: an upper bound of what fixing it could give."""
    return _decorated(code, line, f"{STAND_IN}.recorded")


def replayed(code: Code, line: int) -> Edits:
    """Calls of the function around a line are recorded, and replayed against a rewrite of it (`replaying.py`)."""
    return _decorated(code, line, f"{STAND_IN.replace('source', 'replaying')}.replayed")


def rarer(code: Code, line: int, times: int = 10) -> Edits:
    """The function around a line runs once every `times` calls."""
    return _decorated(code, line, f"{STAND_IN}.rarer({times})")


def skipped_loop(code: Code, line: int) -> Edits:
    """The innermost loop around a line runs a few times and then no more: an upper bound of what it costs."""
    loop = _for_loop(code, line)
    if loop is None or STAND_IN in code.source(loop.iter):
        return []
    place = cst.SimpleString(f'"{loop.lineno}"')
    patch = Patch(code)
    patch.expression(loop.iter, lambda node: called(f"{STAND_IN}.skipped", _argument(node), place))
    return patch.edits()


def _argument(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression that can be one of several arguments: `for x in 1, 2` needs parentheses there."""
    return node if not isinstance(node, cst.Tuple | cst.GeneratorExp) else atom(node)


def numpy_loop(code: Code, line: int) -> Edits:
    """A loop of tiny tensor operations over numpy's views of the same tensors, which share their memory."""
    loop = _for_loop(code, line)
    if loop is None or not isinstance(loop.target, ast.Name) or not (imports(code, "torch") and imports(code, "numpy", "np")):
        return []
    parts = [node for part in loop.body for node in ast.walk(part)]
    if any(isinstance(node, ast.Name) and node.id in ("torch", "np", "nn", "self") for node in parts):
        return []  # what it calls may want tensors
    if code.line(loop.lineno - 1).endswith("_tensors)]"):
        return []  # it does so already
    used = [name for name in _read_first(loop) if name != loop.target.id and not name.isupper()]
    if not used:
        return []
    names = ", ".join(used) + ","
    patch = Patch(code)
    patch.before(
        loop,
        f"_tensors = [isinstance(x, torch.Tensor) for x in ({names})]",
        f"({names}) = [x.numpy() if was else x for x, was in zip(({names}), _tensors)]",
    )
    patch.after(loop, f"({names}) = [torch.as_tensor(x) if was else x for x, was in zip(({names}), _tensors)]")
    return patch.edits()


def _read_first(loop: ast.For) -> list[str]:
    """Names that a loop reads before it sets them, but for those that it calls."""
    calls = {id(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)}
    is_read_first: dict[str, bool] = {}
    for part in loop.body:
        names = [node for node in ast.walk(part) if isinstance(node, ast.Name) and id(node) not in calls]
        for node in sorted(names, key=lambda node: isinstance(node.ctx, ast.Store)):  # the right side comes first
            is_read_first.setdefault(node.id, isinstance(node.ctx, ast.Load))
    return [name for name, is_read in is_read_first.items() if is_read]


def fewer_rounds(code: Code, line: int, times: int) -> Edits:
    """The innermost `for ... in range(n)` around a line, with fewer rounds."""
    for loop in reversed(code.loops(line)):
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range":
            if len(loop.iter.args) != 1:
                return []
            patch = Patch(code)
            patch.expression(
                loop.iter.args[0],
                lambda node: called("max", cst.Integer("1"), _operation(node, cst.FloorDivide(), times)),
            )
            return patch.edits()
    return []


def _operation(node: cst.BaseExpression, operator: cst.BaseBinaryOp, number: int) -> cst.BinaryOperation:
    left = node if isinstance(node, cst.Integer) else atom(node)
    return cst.BinaryOperation(left, operator, cst.Integer(str(number)))


def left_out(code: Code, line: int) -> Edits:
    """A statement that is only a call, left out. Its comments stay."""
    statement = code.statement(line)
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return []

    def emptied(node: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        inside = [cst.EmptyLine(comment=cst.Comment(text)) for text in comments_in(node.body[0])]
        return node.with_changes(leading_lines=(*node.leading_lines, *inside), body=[cst.Pass()])

    patch = Patch(code)
    patch.statement(statement, emptied)
    return patch.edits()


def rarer_condition(code: Code, line: int, times: int = 10) -> Edits:
    """What happens when `count % every == 0`, `times` times less often."""
    for node in reversed(code.enclosing(line)):
        if not isinstance(node, ast.If) or _learns(node):
            continue
        for test in ast.walk(node.test):
            if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod):
                patch = Patch(code)
                patch.expression(test.right, lambda every: atom(_operation(every, cst.Multiply(), times)))
                return patch.edits()
    return []


def _learns(branch: ast.If) -> bool:
    """Whether a branch does more than look on: it learns or collects."""
    text = "\n".join(ast.unparse(part) for part in branch.body)
    return bool(re.search(r"backward\(|\.step\(|\b(update|train|learn|optimi[sz]e|load_state_dict|collect)\w*\(", text)) or any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(branch.test)
    )
