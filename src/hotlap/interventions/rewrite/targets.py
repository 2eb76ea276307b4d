"""Loops over parameters: a target network's soft update by `hotlap.fast.polyak`; optimizers that take all tensors at once."""

import ast
import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import libcst as cst

from hotlap.interventions import drop_ins
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, add_import

MODULE = drop_ins.module("polyak")
_FUSED = ("Adam", "AdamW", "SGD")  # that torch has fused for a CPU and a GPU
_OTHERWISE = {"foreach", "fused", "capturable", "differentiable"}


def soft_update(code: Code, line: int) -> Edits:
    """`for p, q in zip(net.parameters(), target.parameters()): q.copy_((1 - tau) * q + tau * p)` as one call.

    What the line computes is tried with random numbers; only a weighted mean of the two is replaced.
    """
    loop = next((node for node in reversed(code.loops(line)) if isinstance(node, ast.For)), None)
    if loop is None or len(loop.body) != 1 or loop.orelse or not isinstance(loop.target, ast.Tuple):
        return []
    over = loop.iter
    if not (isinstance(over, ast.Call) and ast.unparse(over.func) == "zip" and len(over.args) == len(loop.target.elts) == 2):
        return []
    networks = dict(zip(map(ast.unparse, loop.target.elts), map(ast.unparse, over.args), strict=True))
    if not all(text.endswith(".parameters()") for text in networks.values()):
        return []
    for moved, towards in itertools.permutations(networks):
        tau = _step(loop.body[0], moved, towards)
        if tau is not None:
            call = f"{MODULE}.soft_update({networks[moved]}, {networks[towards]}, {tau})"
            statement = cst.parse_statement(call)
            patch = Patch(code)
            add_import(patch, MODULE)
            patch.statement(loop, lambda old, new=statement: new.with_changes(leading_lines=old.leading_lines))  # type: ignore[misc]
            return patch.edits()
    return []


def _step(statement: ast.stmt, moved: str, towards: str) -> str | None:
    """The factor by which one parameter moves to the other: `tau` of `q.data.copy_((1 - tau) * q.data + tau * p.data)`."""
    if not (isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call) and len(call.args) == 1):
        return None
    if ast.unparse(call.func) not in (f"{moved}.data.copy_", f"{moved}.copy_") or call.keywords:
        return None
    value = ast.unparse(call.args[0]).replace(f"{moved}.data", moved).replace(f"{towards}.data", towards)
    tree = ast.parse(value, mode="eval")
    plain = (ast.Expression, ast.BinOp, ast.Name, ast.Attribute, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Load)
    if not all(isinstance(node, plain) for node in ast.walk(tree)):
        return None
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    parts = [n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Attribute | ast.Constant) and id(n) not in inner]
    for tau in dict.fromkeys(map(ast.unparse, parts)):
        if tau not in (moved, towards) and _is_mean(value, moved, towards, tau):
            return tau
    return None


def _is_mean(value: str, moved: str, towards: str, tau: str) -> bool:
    """Whether an expression is (1 - tau) * moved + tau * towards, for random numbers."""
    coin = random.Random(0)
    for _ in range(5):
        names: dict[str, object] = {moved: coin.random(), towards: coin.random()}
        first, _, rest = tau.partition(".")
        if rest:
            names[first] = SimpleNamespace(**{rest: coin.random()})
        elif first.isidentifier():
            names[first] = coin.random()
        try:
            computed, expected = (
                eval(text, {"__builtins__": {}}, names) for text in (value, f"(1 - {tau}) * {moved} + {tau} * {towards}")
            )
        except (NameError, AttributeError, TypeError, SyntaxError):
            return False
        if abs(computed - expected) > 1e-12:
            return False
    return True


def fused_optimizers(code: Code) -> Edits:
    """Optimizers that say nothing about it are made with `fused=True`."""
    named = {
        alias.asname or alias.name
        for node in ast.walk(code.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "torch.optim"
        for alias in node.names
    }
    patch = Patch(code)
    for call in [node for node in ast.walk(code.tree) if isinstance(node, ast.Call)]:
        owner, _, kind = ast.unparse(call.func).rpartition(".")
        known = owner in ("torch.optim", "optim") or (not owner and kind in named)
        stated = {keyword.arg for keyword in call.keywords}
        if known and kind in _FUSED and call.args and not stated & {*_OTHERWISE, None}:
            patch.expression(call, _with_switch("fused"))
    return patch.edits()


def clipped_at_once(code: Code) -> Edits:
    """`clip_grad_norm_` takes all gradients at once; on a CPU torch's default is one by one."""
    patch = Patch(code)
    for call in [node for node in ast.walk(code.tree) if isinstance(node, ast.Call)]:
        stated = {keyword.arg for keyword in call.keywords}
        if ast.unparse(call.func).endswith("utils.clip_grad_norm_") and call.args and not stated & {"foreach", None}:
            patch.expression(call, _with_switch("foreach"))
    return patch.edits()


def _with_switch(name: str) -> Callable[[Any], Any]:
    """The change of `f(x)` to `f(x, name=True)`."""

    def change(call: Any) -> Any:
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        *first, last = call.args
        comma = last.comma if isinstance(last.comma, cst.Comma) else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        added = cst.Arg(cst.Name("True"), keyword=cst.Name(name), equal=equal)
        return call.with_changes(args=(*first, last.with_changes(comma=comma), added))

    return change
