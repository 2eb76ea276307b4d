"""Numbers of the recipe, found by their names."""

import ast
import re
from collections.abc import Callable, Iterator

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, text


def number(code: Code, name: str, value: float | None, new: Callable[[str], str]) -> Edits:
    """A number with a name like this and this value (or any), wherever it is written: constants, defaults, keywords, flags."""
    pattern = re.compile(name, re.IGNORECASE)
    patch = Patch(code)
    for node in ast.walk(code.tree):
        for label, item in _named_values(node):
            if not isinstance(item, ast.Constant) or isinstance(item.value, bool) or not isinstance(item.value, int | float):
                continue
            if value in (None, item.value) and pattern.search(label):
                patch.expression(item, text(new(code.source(item))))
    return patch.edits()


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """The expressions that a node gives a name to."""
    if isinstance(node, ast.Assign):
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
        yield from ((ast.unparse(target), value) for target, value in zip(targets, values, strict=False))
    elif isinstance(node, ast.AnnAssign):
        yield ast.unparse(node.target), node.value
    elif isinstance(node, ast.keyword) and node.arg and node.arg != "default":
        yield node.arg, node.value
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        with_default = positional[len(positional) - len(node.defaults) :]
        yield from ((argument.arg, default) for argument, default in zip(with_default, node.defaults, strict=True))
        yield from ((argument.arg, default) for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True))
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("add_argument", "option")):
        flag = next((ast.unparse(argument) for argument in node.args), "")
        yield from ((flag, keyword.value) for keyword in node.keywords if keyword.arg == "default")
