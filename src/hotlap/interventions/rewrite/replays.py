"""A deque or list of transitions, replaced by `hotlap.fast.replay.Ring`, which draws the same ones and gathers them in arrays.

Only where all that the code does with the container is what a ring can do as well; the draws stay those of `random.sample`.
"""

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst

from hotlap.interventions import drop_ins
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, add_import, method, text

MODULE = drop_ins.module("replay")
_DRAWS = ("random.sample", "sample")
_METHODS = ("append", "extend", "clear")


def ring(code: Code, line: int) -> Edits:
    """The container that a line draws from as a ring, and the batches that are drawn from it as arrays."""
    around: ast.AST = code.function(line) or code.tree
    draws = [call for call in _calls(around) if _is_draw(call)]
    gathers = [part for part in ast.walk(around) if _gathered(part)]
    drawn = draws[0].args[0] if draws else gathers[0].elt.value if gathers else None  # type: ignore[attr-defined]
    if drawn is None:
        return []
    container = ast.unparse(drawn)
    scopes = [code.class_of(line)] if container.startswith("self.") else [around, code.tree]
    scope = next((scope for scope in scopes if scope is not None and _made(scope, container) is not None), None)
    made = _made(scope, container) if scope is not None else None
    if scope is None or made is None or not _is_only_used_as_a_ring(code.tree, scope, container, made):
        return []
    if not _batches_are_only_read(code, container):
        return []
    patch = Patch(code)
    add_import(patch, MODULE)
    patch.expression(made, text(f"{MODULE}.Ring({_capacity(made)})"))
    for call in [c for c in _calls(scope) if _is_draw(c) and ast.unparse(c.args[0]) == container]:
        size = ast.unparse(call.args[1])
        patch.expression(call, text(f"{container}.sample({size})"))
    for part in [p for p in ast.walk(scope) if _gathered(p) == container]:
        patch.expression(part, text(f"{container}.rows({ast.unparse(part.generators[0].iter)})"))  # type: ignore[attr-defined]
    _use_columns(code, patch, container)
    return patch.edits()


def _calls(node: ast.AST) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def _is_draw(call: ast.Call) -> bool:
    """random.sample(container, k)"""
    return ast.unparse(call.func) in _DRAWS and len(call.args) == 2 and isinstance(call.args[0], ast.Name | ast.Attribute)


def _gathered(part: ast.AST) -> str | None:
    """The container of `[container[i] for i in indices]`."""
    if not isinstance(part, ast.ListComp) or len(part.generators) != 1 or part.generators[0].ifs:
        return None
    target, elt = part.generators[0].target, part.elt
    if not (
        isinstance(elt, ast.Subscript) and isinstance(elt.value, ast.Name | ast.Attribute) and isinstance(target, ast.Name)
    ):
        return None
    return ast.unparse(elt.value) if ast.unparse(elt.slice) == target.id else None


def _made(scope: ast.AST, container: str) -> ast.expr | None:
    """Where the container is made: once, as an empty deque or list."""
    values = [
        node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and any(ast.unparse(t) == container for t in (node.targets if isinstance(node, ast.Assign) else [node.target]))
    ]
    if len(values) != 1 or values[0] is None:
        return None
    value = values[0]
    if isinstance(value, ast.List):
        return value if not value.elts else None
    is_deque = isinstance(value, ast.Call) and ast.unparse(value.func) in ("deque", "collections.deque")
    if not is_deque or not isinstance(value, ast.Call):
        return None
    empty = not value.args or (ast.unparse(value.args[0]) in ("[]", "()"))
    return value if empty and all(keyword.arg == "maxlen" for keyword in value.keywords) else None


def _capacity(made: ast.expr) -> str:
    if not isinstance(made, ast.Call):
        return ""
    limits = [*made.args[1:], *(keyword.value for keyword in made.keywords)]
    return ast.unparse(limits[0]) if limits else ""


def _is_only_used_as_a_ring(tree: ast.AST, scope: ast.AST, container: str, made: ast.expr) -> bool:
    """Whether all uses are stores, draws, lengths and reads of rows, also of an attribute from outside of its class."""
    fine: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is made:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            fine |= {id(target) for target in targets}
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                fine.add(id(node.func.value))
            if (ast.unparse(node.func) == "len" or _is_draw(node)) and node.args:
                fine.add(id(node.args[0]))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and not isinstance(node.slice, ast.Slice):
            fine.add(id(node.value))
    uses = [n for n in ast.walk(scope) if isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) == container]
    if container.startswith("self."):
        inside = {id(n) for n in ast.walk(scope)}
        name = container.removeprefix("self.")
        uses += [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name and id(n) not in inside]
    return all(id(use) in fine for use in uses) and _stores_rows(scope, container)


def _stores_rows(scope: ast.AST, container: str) -> bool:
    """Whether what is appended can be a tuple: no dictionary, no number."""
    stores = [c for c in _calls(scope) if ast.unparse(c.func) == f"{container}.append" and len(c.args) == 1]
    many = [c for c in _calls(scope) if ast.unparse(c.func) == f"{container}.extend" and len(c.args) == 1]
    rows = all(isinstance(c.args[0], ast.Tuple | ast.Name | ast.Call | ast.List) for c in stores)
    return bool(stores or many) and rows


# -- batches --


def _use_columns(code: Code, patch: Patch, container: str) -> None:
    """`zip(*batch)`, `[row[0] for row in batch]` and stacks of them, wherever a batch was drawn."""
    drawers = _drawers(code, container)
    functions = [node for node in ast.walk(code.tree) if isinstance(node, ast.FunctionDef)]
    for function in (code.tree, *functions):
        batches = _batches(function, container, drawers)
        inner = [f for f in ast.walk(function) if isinstance(f, ast.FunctionDef) and f is not function]
        nested = {id(n) for f in inner for n in ast.walk(f)}
        parts = [n for n in ast.walk(function) if id(n) not in nested]
        if _replace_batches(parts, batches, container, drawers, patch):
            _replace_stacks(parts, patch)


def _batches_are_only_read(code: Code, container: str) -> bool:
    """Whether what is done with drawn batches can be done with arrays of rows: zip(*batch), loops in brackets, len, one row."""
    drawers, fine = _drawers(code, container), set[int]()
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Starred):
            fine.add(id(node.value))
        elif isinstance(node, ast.comprehension):
            fine.add(id(node.iter))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "len" and node.args:
            fine.add(id(node.args[0]))
        elif isinstance(node, ast.Return) or (isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice)):
            fine.add(id(node.value))
    for function in (code.tree, *code.walk(ast.FunctionDef)):
        batches = _batches(function, container, drawers)
        loads = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in batches]
        if any(id(load) not in fine for load in loads):
            return False
    return True


def _batches(function: ast.AST, container: str, drawers: set[str]) -> set[str]:
    """Names of batches that a function draws."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _draws(node.value, container, drawers)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _draws(value: ast.AST, container: str, drawers: set[str]) -> bool:
    """Whether an expression gives a batch: it draws, gathers, or calls a method that returns what was drawn."""
    if _gathered(value) == container:
        return True
    if not isinstance(value, ast.Call):
        return False
    if _is_draw(value):
        return ast.unparse(value.args[0]) == container
    return isinstance(value.func, ast.Attribute) and value.func.attr in drawers


def _drawers(code: Code, container: str) -> set[str]:
    """Methods that return a batch as it was drawn."""
    names: set[str] = set()
    for function in ast.walk(code.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
        made = {ast.unparse(t): n.value for n in ast.walk(function) if isinstance(n, ast.Assign) for t in n.targets}
        values = [made.get(ast.unparse(value), value) for value in returned]
        if values and all(_draws(value, container, set()) for value in values):
            names.add(function.name)
    receivers: dict[str, set[str]] = {}  # a method of that name may be another's, such as a distribution's
    for call in _calls(code.tree):
        if isinstance(call.func, ast.Attribute):
            receivers.setdefault(call.func.attr, set()).add(ast.unparse(call.func.value))
    return {name for name in names if len(receivers.get(name, ())) <= 1}


def _replace_batches(parts: list[ast.AST], batches: set[str], container: str, drawers: set[str], patch: Patch) -> bool:
    replaced = False
    for node in parts:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip" and len(node.args) == 1:
            starred = node.args[0]
            if isinstance(starred, ast.Starred) and _is_batch(starred.value, batches, container, drawers):
                patch.expression(node, lambda call: method(call.args[0].value, "columns"))
                replaced = True
        elif isinstance(node, ast.ListComp | ast.GeneratorExp) and (field := _field(node)) is not None:
            rows = node.generators[0].iter
            if not _is_batch(rows, batches, container, drawers):
                continue
            patch.expression(node, text(f"{ast.unparse(rows)}.column({field})"))
            replaced = True
    return replaced


def _is_batch(value: ast.expr, batches: set[str], container: str, drawers: set[str]) -> bool:
    return (isinstance(value, ast.Name) and value.id in batches) or _draws(value, container, drawers)


def _field(part: ast.ListComp | ast.GeneratorExp) -> str | None:
    """The field of `[row[2] for row in batch]` or `[row.reward for row in batch]`."""
    if len(part.generators) != 1 or not isinstance(target := part.generators[0].target, ast.Name):
        return None
    tests = [ast.unparse(test) for test in part.generators[0].ifs]
    if any(test != f"{target.id} is not None" for test in tests):
        return None
    elt = part.elt
    if isinstance(elt, ast.Attribute) and ast.unparse(elt.value) == target.id:
        return repr(elt.attr)
    is_item = isinstance(elt, ast.Subscript) and ast.unparse(elt.value) == target.id and isinstance(elt.slice, ast.Constant)
    return ast.unparse(elt.slice) if is_item else None  # type: ignore[attr-defined]


def _replace_stacks(parts: list[ast.AST], patch: Patch) -> None:
    """`np.stack(x)`, `torch.stack(x)` and `torch.cat(x)` leave a column as it is where it is one array already."""
    for node in parts:
        if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
            continue
        name = {"np.stack": "stack", "torch.stack": "stack", "torch.cat": "cat"}.get(ast.unparse(node.func))
        column = node.args[0]
        is_field = isinstance(column, ast.ListComp) and _field(column) is not None
        if name and (is_field or isinstance(column, ast.Name | ast.Attribute)):
            patch.expression(node, _renamed(f"{MODULE}.{name}"))


def _renamed(function: str) -> Callable[[Any], Any]:
    return lambda call: call.with_changes(func=cst.parse_expression(function))
