"""Rewrites that set a switch: of torch, of threads, of vector classes, of precision."""

import ast
from typing import Any

import libcst as cst

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, imports, text


def _after_imports(code: Code, line: str) -> Edits:
    """A line of torch's below the imports at the top of a file, if torch is one of them."""
    if not imports(code, "torch"):
        return []
    patch = Patch(code)
    tops = [node for node in code.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    patch.after(tops[-1], "", line)
    return patch.edits()


def _calls(code: Code, name: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(code.tree) if isinstance(node, ast.Call)]
    return [call for call in calls if f".{ast.unparse(call.func)}".endswith(f".{name}")]


def validate_off(code: Code) -> Edits:
    """Distributions do not check their arguments: calls that switch that on, switched off; else a line that says so."""
    calls = [call for call in _calls(code, "set_default_validate_args") if call.args]
    wrong = [call for call in calls if ast.unparse(call.args[0]) != "False"]
    if not wrong:
        always = {id(node.value) for node in code.tree.body if isinstance(node, ast.Expr)}
        if any(id(call) in always for call in calls):
            return []  # a call in a branch or a function may never run
        return _after_imports(code, "torch.distributions.Distribution.set_default_validate_args(False)")
    patch = Patch(code)
    for call in wrong:
        patch.expression(call.args[0], text("False"))
    return patch.edits()


def anomaly_off(code: Code) -> Edits:
    """Autograd's debug mode stays off where it was switched on."""
    patch = Patch(code)
    for call in _calls(code, "set_detect_anomaly"):
        modes = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        for mode in modes:
            patch.expression(mode, text("False"))
    return patch.edits()


def threads(code: Code, number: int) -> Edits:
    """torch's threads: the number that the script sets, or a line that sets it."""
    calls = [call for call in _calls(code, "torch.set_num_threads") if call.args]
    if not calls:
        return _after_imports(code, f"torch.set_num_threads({number})")
    patch = Patch(code)
    for call in calls:
        patch.expression(call.args[0], text(str(number)))
    return patch.edits()


def renamed(code: Code, names: dict[str, str]) -> Edits:
    """Classes of the same use swapped, where they are imported and where they are made without settings of their own."""
    patch = Patch(code)
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
            if node.keywords or len(node.args) > 1:
                return []
        elif isinstance(node, ast.Name) and node.id in names:
            patch.expression(node, _named("value", names[node.id]))
        elif isinstance(node, ast.Attribute) and node.attr in names:
            patch.expression(node, _named("attr", cst.Name(names[node.attr])))
        elif isinstance(node, ast.alias) and node.name in names and not node.asname:
            patch.expression(node, _named("name", cst.Name(names[node.name])))
    return patch.edits()


def _named(field: str, name: Any) -> Any:
    return lambda node: node.with_changes(**{field: name})


def float32(code: Code) -> Edits:
    """Doubles become single precision: `torch.float64`, `np.float64`, `x.double()`."""
    patch = Patch(code)
    for node in ast.walk(code.tree):
        if not isinstance(node, ast.Attribute):
            continue
        if node.attr in ("float64", "double") and ast.unparse(node.value) in ("torch", "np", "numpy"):
            patch.expression(node, _named("attr", cst.Name("float32")))
    for node in ast.walk(code.tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)) or node.args:
            continue
        if node.func.attr == "double" and ast.unparse(node.func.value) not in ("torch", "np", "numpy"):
            patch.expression(node.func, _named("attr", cst.Name("float")))
    return patch.edits()
