"""Rewrites of acting and storing: gradients that nobody needs, numbers read one by one, tensors made of lists."""

import ast
import re
from typing import Any

import libcst as cst

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, called, imports, method

_MODES = ("no_grad", "inference_mode", "enable_grad")


def no_grad(code: Code, line: int) -> Edits:
    """The statement on a line, without gradients; in inference mode where no tensor leaves it."""
    statement = code.statement(line)
    if statement is None or not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
        return []
    if not imports(code, "torch") or _has_mode(code, line):
        return []
    mode = "inference_mode" if _is_plain(statement.value) else "no_grad"

    def wrapped(node: Any) -> Any:
        item = cst.WithItem(cst.parse_expression(f"torch.{mode}()"))
        body = cst.IndentedBlock([node.with_changes(leading_lines=())])
        return cst.With([item], body, leading_lines=node.leading_lines)

    patch = Patch(code)
    patch.statement(statement, wrapped)
    return patch.edits()


def _has_mode(code: Code, line: int) -> bool:
    """Whether a line already says whether it wants gradients: by a `with` around it or a decorator of its function."""
    for node in code.enclosing(line):
        modes: list[ast.expr] = []
        if isinstance(node, ast.With):
            modes = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            modes = node.decorator_list
        if any(isinstance(part, ast.Attribute) and part.attr in _MODES for top in modes for part in ast.walk(top)):
            return True
    return False


def _is_plain(value: ast.expr | None) -> bool:
    """Whether an expression gives numbers or arrays of numpy, whatever tensors it is made of."""
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Name):
        return value.func.id in ("int", "float")
    return isinstance(value.func, ast.Attribute) and value.func.attr in ("item", "tolist", "numpy")


def hoisted_items(code: Code, line: int) -> Edits:
    """Numbers that a loop reads out of tensors one by one, read before it in one go."""
    loop = next((node for node in reversed(code.loops(line)) if isinstance(node, ast.For)), None)
    if loop is None:
        return []
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    if not isinstance(target, ast.Name):
        return []
    changed = _changed_in(loop)
    taken = {node.id for node in ast.walk(code.tree) if isinstance(node, ast.Name)}
    patch, made = Patch(code), dict[str, str]()
    for node in ast.walk(loop):
        read = _read_of_row(node, target.id)
        if read is None or changed & {part.id for part in ast.walk(ast.parse(read[0])) if isinstance(part, ast.Name)}:
            continue
        tensor, way = read
        name = re.sub(r"\W+", "_", tensor).strip("_") + ("_values" if way == "tolist" else "_rows")
        while name in taken:
            name += "_"
        made[name] = f"{tensor}.reshape(-1).tolist()" if way == "tolist" else f"{tensor}.detach().cpu().numpy()"
        patch.expression(node, _row_of(name))
    if not made:
        return []
    patch.before(loop, *(f"{name} = {values}" for name, values in made.items()))
    return patch.edits()


def _row_of(name: str) -> Any:
    """The change of `x[i].item()` to `name[i]`."""

    def change(node: Any) -> Any:
        while not isinstance(node, cst.Subscript):
            node = node.func.value
        return node.with_changes(value=cst.Name(name))

    return change


def _changed_in(loop: ast.AST) -> set[str]:
    """Names that a loop sets, changes in place or runs over."""
    names: set[str] = set()
    for node in ast.walk(loop):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.comprehension):
            targets = [node.target]
        names |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names


def _read_of_row(node: ast.AST, index: str) -> tuple[str, str] | None:
    """`x[i].item()` or `x[i].cpu().numpy()`: the tensor, and how to read all of it."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args):
        return None
    kind, inner = node.func.attr, node.func.value
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in ("cpu", "detach"):
        inner = inner.func.value
    row = isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Name) and inner.slice.id == index
    if not row or kind not in ("item", "numpy"):
        return None
    assert isinstance(inner, ast.Subscript)
    return ast.unparse(inner.value), "tolist" if kind == "item" else "numpy"


_KINDS = {"torch.FloatTensor": "torch.float32", "torch.LongTensor": "torch.int64", "torch.Tensor": "torch.float32"}


def stacked_tensor(code: Code, line: int) -> Edits:
    """Tensors made from lists, through an array."""
    statement = code.statement(line)
    if statement is None or not imports(code, "numpy", "np"):
        return []
    patch = Patch(code)
    for node in ast.walk(statement):
        if not (isinstance(node, ast.Call) and node.args) or "np." in ast.unparse(node.args[0]):
            continue
        name = ast.unparse(node.func)
        has_dtype = any(keyword.arg == "dtype" for keyword in node.keywords)
        if name in ("torch.tensor", "torch.as_tensor") and has_dtype:  # without a dtype, floats would become doubles
            patch.expression(node.args[0], lambda part: called("np.asarray", part))
        elif name in _KINDS and len(node.args) == 1 and not node.keywords:
            patch.expression(node, _typed(_KINDS[name]))
    return patch.edits()


def _typed(dtype: str) -> Any:
    """The change of `torch.FloatTensor(rows)` to `torch.tensor(np.asarray(rows), dtype=...)`."""

    def change(call: Any) -> Any:
        rows = call.args[0]
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        kind = rows.with_changes(value=cst.parse_expression(dtype), keyword=cst.Name("dtype"), equal=equal)
        array = cst.Arg(called("np.asarray", rows.value), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        return call.with_changes(func=cst.parse_expression("torch.tensor"), args=(array, kind))

    return change


def detached(code: Code, line: int) -> Edits:
    """What a line stores, without its graph."""
    statement = code.statement(line)
    value: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        value = statement.value
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call) and call.args:
        value = call.args[0] if isinstance(call.func, ast.Attribute) and call.func.attr == "append" else None
    if value is None or _is_plain(value) or ast.unparse(value).endswith(".detach()"):
        return []
    patch = Patch(code)
    patch.expression(value, lambda node: method(node, "detach"))
    return patch.edits()
