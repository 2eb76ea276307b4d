"""A loop backwards over a rollout, replaced by `hotlap.fast.returns`.

What the loop computes is not guessed from its names. It must be plain arithmetic on rows `x[t]` and `x[t + 1]`; then it is run
here on small random arrays, and so are the calls that could stand for it. A call is offered if it computes the same numbers.
"""

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import libcst as cst
import numpy as np

from hotlap.interventions import drop_ins
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.rewrite.patch import Patch, add_import

MODULE = drop_ins.module("returns")
STEPS, ENVS = 6, 3  # of the random rollouts
_REVERSED = ast.parse(f"reversed(range({STEPS}))", mode="eval").body
_PLAIN = (
    *(ast.Assign, ast.If, ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call),
    *(ast.Add, ast.Sub, ast.Mult, ast.USub, ast.Eq, ast.NotEq, ast.Lt, ast.Load, ast.Store),
)


@dataclass(frozen=True)
class _Loop:
    """What a loop reads and writes, as text."""

    node: ast.For
    steps: str  # how many
    out: str  # the array whose rows it sets
    rows: tuple[tuple[str, bool], ...]  # arrays that it reads, and whether they have a row more than there are steps
    numbers: tuple[str, ...]  # anything else that it reads
    zeros: tuple[str, ...]  # of these, what is zero when it begins

    def has_one_more(self, rows: str) -> bool:
        return dict(self.rows)[rows]

    @property
    def is_over_all_rows(self) -> bool:
        whole = [self.out, *(name for name, longer in self.rows if not longer)]
        return self.steps in [f"len({name})" for name in whole]


def vectorised_returns(code: Code, line: int) -> Edits:
    """The loop around a line as one call of `returns.gae` or `returns.discounted`; nothing if it computes something else."""
    node = next((node for node in reversed(code.loops(line)) if isinstance(node, ast.For)), None)
    loop = _read(code, node) if node is not None else None
    if loop is None:
        return []
    call = next((call for call in _candidates(loop) if all(_same(loop, call, seed) for seed in range(3))), None)
    if call is None:
        return []
    patch = Patch(code)
    add_import(patch, MODULE)
    steps = "" if loop.is_over_all_rows else loop.steps
    statement = cst.parse_statement(f"{loop.out}[:{steps}] = {MODULE}.{_over_steps(loop, call)}")
    patch.statement(loop.node, lambda old: statement.with_changes(leading_lines=old.leading_lines))
    return patch.edits()


def _over_steps(loop: _Loop, call: str) -> str:
    """The call over as many rows as the loop makes steps: a buffer may hold more, from an earlier rollout."""
    if loop.is_over_all_rows:
        return call
    rows = dict(loop.rows)

    class Cut(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            name = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
            if name not in rows:
                return super().visit(node)  # type: ignore[no-any-return]
            return ast.parse(f"{name}[:{loop.steps}{' + 1' * rows[name]}]", mode="eval").body

    return ast.unparse(Cut().visit(ast.parse(call, mode="eval")))


def _read(code: Code, loop: ast.For) -> _Loop | None:
    """A loop of plain arithmetic that sets the rows of one array; None if it is something else."""
    steps = _backwards(loop.iter)
    if steps is None or not isinstance(loop.target, ast.Name) or loop.orelse:
        return None
    index, body = loop.target.id, [node for part in loop.body for node in ast.walk(part)]
    calls = [node for node in body if isinstance(node, ast.Call)]
    if not all(isinstance(node, _PLAIN) for node in body) or any(ast.unparse(call.func) != "len" for call in calls):
        return None
    stored = {ast.unparse(n.value) for n in body if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    subscripts = [n for n in body if isinstance(n, ast.Subscript)]
    if len(stored) != 1 or any(ast.unparse(n.slice) not in (index, f"{index} + 1") for n in subscripts):
        return None
    (out,) = stored
    conditional = {id(n) for part in body if isinstance(part, ast.If) for n in ast.walk(part)}  # the last step is another
    rows: dict[str, bool] = {}
    for node in subscripts:
        if isinstance(node.ctx, ast.Load):
            name = ast.unparse(node.value)
            longer = ast.unparse(node.slice) != index and id(node) not in conditional
            rows[name] = rows.get(name, False) or longer
    own = {n.id for n in body if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if out in rows or _used_after(code, loop, own):
        return None
    parts = [*subscripts, *calls, *(n.value for n in body if isinstance(n, ast.Attribute))]
    inside = {id(n) for part in parts for n in ast.walk(part)}
    loads = [n for n in body if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in inside]
    numbers = dict.fromkeys(ast.unparse(n) for n in loads if ast.unparse(n) not in (index, steps))
    carried = [name for name in numbers if name in own]
    zeros = [name for name in carried if _starts_at_zero(code, loop, name)]
    before = [name for name in numbers if name not in own or _is_set_before(code, loop, name)]
    return _Loop(loop, steps, out, tuple(rows.items()), tuple(before), tuple(zeros))


def _backwards(over: ast.expr) -> str | None:
    """The number of steps of `reversed(range(n))` or `range(n - 1, -1, -1)`."""
    if not isinstance(over, ast.Call):
        return None
    if ast.unparse(over.func) == "reversed" and len(over.args) == 1 and isinstance(inner := over.args[0], ast.Call):
        return ast.unparse(inner.args[0]) if ast.unparse(inner.func) == "range" and len(inner.args) == 1 else None
    text = ast.unparse(over)
    if text.startswith("range(") and text.endswith(" - 1, -1, -1)"):
        return text.removeprefix("range(").removesuffix(" - 1, -1, -1)")
    return None


def _used_after(code: Code, loop: ast.For, names: set[str]) -> bool:
    """Whether something below the loop reads what only the loop should know."""
    around: ast.AST = code.function(loop.lineno) or code.tree
    last = loop.end_lineno or loop.lineno
    return any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names and n.lineno > last for n in ast.walk(around)
    )


def _set_before(code: Code, loop: ast.For, name: str) -> ast.expr | None:
    """What a name was last set to above a loop, in the same function."""
    around: ast.AST = code.function(loop.lineno) or code.tree
    values: list[tuple[int, ast.expr]] = []
    for node in ast.walk(around):
        if not isinstance(node, ast.Assign) or node.lineno >= loop.lineno:
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            values += [(node.lineno, value) for part, value in pairs if ast.unparse(part) == name]
    return max(values, key=lambda pair: pair[0])[1] if values else None


def _starts_at_zero(code: Code, loop: ast.For, name: str) -> bool:
    value = _set_before(code, loop, name)
    if isinstance(value, ast.Call) and value.args and ast.unparse(value.func) in ("torch.tensor", "np.array", "float"):
        value = value.args[0]
    if isinstance(value, ast.Constant):
        return value.value == 0
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in ("zeros", "zeros_like")


def _is_set_before(code: Code, loop: ast.For, name: str) -> bool:
    function = code.function(loop.lineno)
    arguments = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)} if function else set()
    return name in arguments or _set_before(code, loop, name) is not None


# -- calls that could stand for it --


def _candidates(loop: _Loop) -> Iterator[str]:
    """Calls of the kit over what the loop reads, the likeliest first."""
    constants = {ast.unparse(n) for n in ast.walk(loop.node) if isinstance(n, ast.Constant) and isinstance(n.value, float)}
    free = [name for name in loop.numbers if name not in loop.zeros]
    factors = [*free, *sorted(constants - {"1.0", "0.0"})]
    for rewards, dones in itertools.permutations(dict(loop.rows), 2):
        if loop.has_one_more(rewards):
            continue
        for ended in _ended(loop, dones):
            for gamma, last in itertools.product(factors, ["0.0", *free]):
                yield f"discounted({rewards}, {ended}, {gamma}, {last})"
    for rewards, values, dones in itertools.permutations(dict(loop.rows), 3):
        if loop.has_one_more(rewards):
            continue
        for gamma, lam in itertools.permutations(factors, 2) if len(factors) > 1 else ():
            rest = [name for name in free if name not in (gamma, lam)]
            for last_value in [""] if loop.has_one_more(values) else [f", {name}" for name in rest]:
                for ended in _ended(loop, dones):
                    yield f"gae({rewards}, {values}, {ended}, {gamma}, {lam}{last_value})"
                for last_done in [name for name in rest if f", {name}" != last_value and last_value]:
                    yield f"gae({rewards}, {values}, {dones}, {gamma}, {lam}{last_value}, {last_done})"


def _ended(loop: _Loop, dones: str) -> list[str]:
    """Whether step t ended its episode: by rows that say so, or by rows that say it did not."""
    rows = f"{dones}[1:]" if loop.has_one_more(dones) else dones
    return [rows, f"1 - {rows}"]


def _same(loop: _Loop, call: str, seed: int) -> bool:
    """Whether loop and call compute the same from a random rollout."""
    expected, computed = _computed(loop, None, seed), _computed(loop, call, seed)
    return expected is not None and computed is not None and np.allclose(expected, computed, rtol=1e-9, atol=1e-12)


@lru_cache(maxsize=4096)
def _computed(loop: _Loop, call: str | None, seed: int) -> Any:
    """The rows that the loop, or a call in its place, leaves in its array; None where these arrays cannot be computed with."""
    coin, names = np.random.default_rng(seed), dict[str, Any]()
    for name, longer in loop.rows:
        _put(names, name, coin.normal(size=(STEPS + longer, ENVS)))
    for name in loop.numbers:  # discounts too: one for each environment
        _put(names, name, coin.normal(size=ENVS) * (name not in loop.zeros))
    _put(names, loop.out, np.zeros((STEPS, ENVS)))
    _put(names, loop.steps, STEPS)
    known = {"range": range, "reversed": reversed, "len": len, "gae": _gae, "discounted": _discounted}
    try:
        if call is None:
            shorter = ast.For(loop.node.target, _REVERSED, loop.node.body, [], lineno=1, col_offset=0)
            exec(compile(ast.Module([shorter], []), "<loop>", "exec"), {"__builtins__": known}, names)
        else:
            _put(names, loop.out, eval(call, {"__builtins__": known}, names))
        return eval(loop.out, {"__builtins__": {}}, names)
    except Exception:
        return None


def _gae(rewards: Any, values: Any, dones: Any, gamma: Any, lam: Any, last_value: Any = None, last_done: Any = None) -> Any:
    """What `hotlap.fast.returns.gae` computes, without torch: hotlap itself may have none."""
    values = values if last_value is None else np.concatenate((values, last_value[None]))
    dones = dones if last_done is None else np.concatenate((dones, last_done[None]))[1:]
    advantages, last = np.zeros_like(rewards), np.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        alive = 1 - dones[t]
        last = advantages[t] = rewards[t] + gamma * values[t + 1] * alive - values[t] + gamma * lam * alive * last
    return advantages


def _discounted(rewards: Any, dones: Any, gamma: Any, last: Any) -> Any:
    """What `hotlap.fast.returns.discounted` computes."""
    rows = np.zeros_like(rewards)
    for t in range(len(rewards) - 1, -1, -1):
        last = rows[t] = rewards[t] + gamma * last * (1 - dones[t])
    return rows


def _put(names: dict[str, Any], text: str, value: Any) -> None:
    """Bind `x` or `args.x`."""
    first, *rest = text.split(".")
    if not rest:
        names[first] = value
        return
    if not all(part.isidentifier() for part in (first, *rest)):
        return
    owner = names.setdefault(first, SimpleNamespace())
    for part in rest[:-1]:
        if not hasattr(owner, part):
            setattr(owner, part, SimpleNamespace())
        owner = getattr(owner, part)
    setattr(owner, rest[-1], value)
