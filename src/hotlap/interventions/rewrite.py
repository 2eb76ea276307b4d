"""Changes to the user's code that hotlap knows how to make: each gives the lines to replace, or nothing if it does not fit.

They are tried without touching the file (`source.py`), and written as a unified diff only when the user asks for it.
"""

import ast
import re
from collections.abc import Callable

from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edit, Edits, indent, swap

STAND_IN = '__import__("hotlap.interventions.source", fromlist=["_"])'


def _after_imports(code: Code, text: str, needs: str) -> Edits:
    """A line behind the imports at the top of a file, if one of them has what it needs."""
    imports = [node for node in code.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not any(isinstance(node, ast.Import) and any(a.name == needs and not a.asname for a in node.names) for node in imports):
        return []
    last = max(node.end_lineno or node.lineno for node in imports)
    return [Edit(last + 1, last, ("", text))]


# -- acting, storing --


def no_grad(code: Code, line: int) -> Edits:
    """The statement on a line, without gradients; in inference mode where no tensor leaves it."""
    statement = code.statement(line)
    if statement is None or not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
        return []
    if not re.search(r"^import torch$", code.text, re.MULTILINE):
        return []
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    space = indent(code.lines[first - 1])
    inner = [f"    {text}" for text in code.lines[first - 1 : last]]
    mode = "inference_mode" if _is_plain(statement.value) else "no_grad"
    return [Edit(first, last, (f"{space}with torch.{mode}():", *inner))]


def _is_plain(value: ast.expr | None) -> bool:
    """Whether an expression gives numbers or arrays of numpy, whatever tensors it is made of."""
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Name):
        return value.func.id in ("int", "float")
    return isinstance(value.func, ast.Attribute) and value.func.attr in ("item", "tolist", "numpy")


def hoisted_items(code: Code, line: int) -> Edits:
    """Numbers that a loop reads out of tensors one by one, read before it in one go."""
    loop = next((found for found in reversed(code.loops(line)) if isinstance(found, ast.For)), None)
    if loop is None:
        return []
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    if not isinstance(target, ast.Name):
        return []
    changed = _changed_in(loop)
    swaps: list[tuple[ast.AST, str]] = []
    made: dict[str, str] = {}
    for node in ast.walk(loop):
        found = _read_of_row(node, target.id)
        if found is None or changed & {part.id for part in ast.walk(ast.parse(found[0])) if isinstance(part, ast.Name)}:
            continue
        tensor, whole = found
        name = re.sub(r"\W+", "_", tensor).strip("_") + ("_values" if whole == "tolist" else "_rows")
        made[name] = (
            f"{name} = {tensor}.reshape(-1).tolist()" if whole == "tolist" else f"{name} = {tensor}.detach().cpu().numpy()"
        )
        swaps.append((node, f"{name}[{target.id}]"))
    if not swaps:
        return []
    space = indent(code.lines[loop.lineno - 1])
    return [Edit(loop.lineno, loop.lineno - 1, tuple(space + text for text in made.values())), *swap(code, swaps)]


def _changed_in(loop: ast.AST) -> set[str]:
    """Names that a loop sets, changes in place or runs over."""
    found: set[str] = set()
    for node in ast.walk(loop):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.comprehension):
            targets = [node.target]
        found |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return found


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


def stacked_tensor(code: Code, line: int) -> Edits:
    """Tensors made from lists, through an array."""
    statement = code.statement(line)
    if statement is None or not re.search(r"^import numpy as np$", code.text, re.MULTILINE):
        return []
    kinds = {"torch.FloatTensor": "torch.float32", "torch.LongTensor": "torch.int64", "torch.Tensor": "torch.float32"}
    swaps: list[tuple[ast.AST, str]] = []
    for node in ast.walk(statement):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        name, made_of = ast.unparse(node.func), ast.unparse(node.args[0])
        rest = "".join(f", {ast.unparse(keyword)}" for keyword in node.keywords)
        if name in ("torch.tensor", "torch.as_tensor") and "np." not in made_of and "dtype" in rest:
            swaps.append((node, f"torch.tensor(np.asarray({made_of}){rest})"))  # without a dtype, floats would become doubles
        elif name in kinds and "np." not in made_of:
            swaps.append((node, f"torch.tensor(np.asarray({made_of}), dtype={kinds[name]})"))
    return swap(code, swaps)


# -- functions and loops --


def _decorated(code: Code, line: int, decorator: str) -> Edits:
    function = code.function(line)
    if function is None:
        return []
    space = indent(code.lines[function.lineno - 1])
    return [Edit(function.lineno, function.lineno - 1, (f"{space}@{decorator}",))]


def recorded(code: Code, line: int) -> Edits:
    """The function around a line costs nothing: what fixing it could give at most."""
    return _decorated(code, line, f"{STAND_IN}.recorded")


def rarer(code: Code, line: int, times: int = 10) -> Edits:
    return _decorated(code, line, f"{STAND_IN}.rarer({times})")


def skipped_loop(code: Code, line: int) -> Edits:
    """The innermost loop around a line runs a few times and then no more: what it costs at most."""
    loop = next((found for found in reversed(code.loops(line)) if isinstance(found, ast.For)), None)
    if loop is None:
        return []
    return swap(code, [(loop.iter, f'{STAND_IN}.skipped({ast.unparse(loop.iter)}, "{loop.lineno}")')])


def numpy_loop(code: Code, line: int) -> Edits:
    """A loop of tiny tensor operations over numpy's views of the same tensors, which share their memory."""
    loop = next((found for found in reversed(code.loops(line)) if isinstance(found, ast.For)), None)
    imported = all(re.search(rf"^import {name}$", code.text, re.MULTILINE) for name in ("torch", "numpy as np"))
    if loop is None or not imported or not isinstance(loop.target, ast.Name):
        return []
    if any(
        isinstance(node, ast.Name) and node.id in ("torch", "np", "nn", "self") for part in loop.body for node in ast.walk(part)
    ):
        return []  # what it calls may want tensors
    called = {id(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)}
    seen: dict[str, bool] = {}  # name -> whether it is read before it is set
    for part in loop.body:
        names = [node for node in ast.walk(part) if isinstance(node, ast.Name) and id(node) not in called]
        for node in sorted(names, key=lambda node: isinstance(node.ctx, ast.Store)):  # the right side comes first
            seen.setdefault(node.id, isinstance(node.ctx, ast.Load))
    used = [name for name, read in seen.items() if read and name != loop.target.id and not name.isupper()]
    if not used:
        return []
    space, listed = indent(code.lines[loop.lineno - 1]), ", ".join(used) + ","
    last = loop.end_lineno or loop.lineno
    before = (
        f"{space}_tensors = [isinstance(x, torch.Tensor) for x in ({listed})]",
        f"{space}({listed}) = [x.numpy() if was else x for x, was in zip(({listed}), _tensors)]",
    )
    after = f"{space}({listed}) = [torch.as_tensor(x) if was else x for x, was in zip(({listed}), _tensors)]"
    return [Edit(loop.lineno, loop.lineno - 1, before), Edit(last + 1, last, (after,))]


def jitted(code: Code, line: int) -> Edits:
    """The function around a line, compiled with Numba; for functions of arrays and numbers only."""
    function = code.function(line)
    if function not in code.tree.body or not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return []
    if "random" in code.source(function) or _variables(code) & {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}:
        return []  # Numba has random numbers of its own, and takes globals as they are when it compiles
    if any(
        isinstance(node, ast.FunctionDef | ast.Lambda | ast.Yield | ast.Try | ast.With)
        for node in ast.walk(function)
        if node is not function
    ):
        return []
    names = [node for node in code.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node for node in names if getattr(node, "module", "") != "__future__"]
    first = names[0].lineno if names else function.lineno
    needed = [Edit(first, first - 1, ("import numba",))] if not re.search(r"^import numba$", code.text, re.MULTILINE) else []
    helpers = [f for name in _called(function) if (f := _plain_function(code, name)) is not None and f is not function]
    return needed + [Edit(f.lineno, f.lineno - 1, ("@numba.njit",)) for f in (function, *helpers)]


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


def fewer_rounds(code: Code, line: int, times: int) -> Edits:
    """The innermost `for ... in range(n)` around a line, with fewer rounds."""
    for loop in reversed(code.loops(line)):
        if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range":
            if len(loop.iter.args) == 1:
                return swap(code, [(loop.iter.args[0], f"max(1, ({ast.unparse(loop.iter.args[0])}) // {times})")])
            return []
    return []


def left_out(code: Code, line: int) -> Edits:
    """A statement that is only a call, left out."""
    statement = code.statement(line)
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)) or ";" in code.line(line):
        return []
    return [
        Edit(statement.lineno, statement.end_lineno or statement.lineno, (indent(code.lines[statement.lineno - 1]) + "pass",))
    ]


def rarer_condition(code: Code, line: int, times: int = 10) -> Edits:
    """What happens when `count % every == 0`, so many times rarer."""
    for node in reversed(code.enclosing(line)):
        if isinstance(node, ast.If):
            for test in ast.walk(node.test):
                if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) and not _learns(node):
                    return swap(code, [(test.right, f"({ast.unparse(test.right)} * {times})")])
    return []


def _learns(branch: ast.If) -> bool:
    """Whether a branch does more than look on: it learns or collects."""
    text = "\n".join(ast.unparse(part) for part in branch.body)
    return bool(re.search(r"backward\(|\.step\(|\b(update|train|learn|optimi[sz]e|load_state_dict|collect)\w*\(", text)) or any(
        isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(branch.test)
    )


# -- switches and numbers --


def validate_off(code: Code) -> Edits:
    return _after_imports(code, "torch.distributions.Distribution.set_default_validate_args(False)", "torch")


def anomaly_off(code: Code) -> Edits:
    return swap(
        code,
        [
            (node.args[0], "False")
            for node in ast.walk(code.tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("set_detect_anomaly") and node.args
        ],
    )


def threads(code: Code, number: int) -> Edits:
    """torch's threads: the number that the script sets, or a line that sets it."""
    calls = [
        node
        for node in ast.walk(code.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.set_num_threads" and node.args
    ]
    if calls:
        return swap(code, [(node.args[0], str(number)) for node in calls])
    return _after_imports(code, f"torch.set_num_threads({number})", "torch")


def renamed(code: Code, names: dict[str, str]) -> Edits:
    """Classes of the same use swapped, where they are imported and where they are called without settings of their own."""
    swaps: list[tuple[ast.AST, str]] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names and node.keywords:
            return []
        if isinstance(node, ast.Name) and node.id in names:
            swaps.append((node, names[node.id]))
        elif isinstance(node, ast.Attribute) and node.attr in names:
            swaps.append((node, f"{ast.unparse(node.value)}.{names[node.attr]}"))
        elif isinstance(node, ast.alias) and node.name in names and not node.asname:
            swaps.append((node, names[node.name]))
    return swap(code, swaps)


def float32(code: Code) -> Edits:
    swaps: list[tuple[ast.AST, str]] = []
    for node in ast.walk(code.tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("float64", "double")
            and ast.unparse(node.value) in ("torch", "np")
        ):
            swaps.append((node, f"{ast.unparse(node.value)}.float32"))
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "double" and not node.args
        ):
            swaps.append((node, f"{ast.unparse(node.func.value)}.float()"))
    return swap(code, swaps)


def detached(code: Code, line: int) -> Edits:
    """What a line stores, without its graph."""
    for node in ast.walk(code.tree):
        if getattr(node, "lineno", 0) != line:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args:
            return swap(code, [(node.args[0], f"({ast.unparse(node.args[0])}).detach()")])
        if isinstance(node, ast.AugAssign):
            return swap(code, [(node.value, f"({ast.unparse(node.value)}).detach()")])
    return []


def number(code: Code, name: str, value: float | None, new: Callable[[str], str]) -> Edits:
    """A number with a name like this and this value (or any), wherever it is written: constants, defaults, keywords, flags."""
    pattern = re.compile(name, re.IGNORECASE)
    swaps: list[tuple[ast.AST, str]] = []

    def fits(node: ast.AST | None) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and value in (None, node.value)

    for node in ast.walk(code.tree):
        found: list[tuple[str, ast.AST | None]] = []
        if isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            found = [(ast.unparse(target), item) for target, item in zip(names, values, strict=False)]
        elif isinstance(node, ast.AnnAssign):
            found = [(ast.unparse(node.target), node.value)]
        elif isinstance(node, ast.keyword) and node.arg and node.arg != "default":
            found = [(node.arg, node.value)]
        elif isinstance(node, ast.arguments):
            known = [*node.posonlyargs, *node.args]
            found = [(a.arg, d) for a, d in zip(known[len(known) - len(node.defaults) :], node.defaults, strict=True)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("add_argument", "option")):
            flag = next((ast.unparse(a) for a in node.args), "")
            found = [(flag, keyword.value) for keyword in node.keywords if keyword.arg == "default"]
        swaps += [
            (item, new(ast.unparse(item))) for label, item in found if item is not None and pattern.search(label) and fits(item)
        ]
    return swap(code, swaps)
