"""How often the body of a loop runs, and what a trip costs.

It is known where the code says it: a constant, the rows of a minibatch, the number of environments. Where it does not, nothing
is said.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from hotlap.causes.evidence import Evidence
from hotlap.causes.loops import SELDOM, Key, WorkLoop
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.interventions.code import Code

_ROWS = re.compile(r"\.size\(0\)|\.shape\[0\]|batch|sample|transition", re.IGNORECASE)
_ENVIRONMENTS = re.compile(r"\bn(um)?_?envs?\b|\blen\((self\.)?envs\)|^(self\.)?envs$|^enumerate\((self\.)?envs\)$")


def trips(e: Evidence, loop: WorkLoop, stage: str) -> float | None:
    """How often the body of a loop runs each time; None where the code does not say."""
    node = loop.node
    over = node.generators[0].iter if isinstance(node, ast.ListComp | ast.GeneratorExp) else getattr(node, "iter", None)
    if over is None:
        return None
    over, text = _without_wrappers(over), ast.unparse(over)
    number = _number_of_range(e.codes[loop.file], over)
    if number is not None:
        return number
    if _ENVIRONMENTS.search(text) and not loop.in_environment:
        return float(e.num_envs)
    learning = stage.startswith((stages.UPDATE, stages.SAMPLE))
    return round(e.minibatch) if learning and e.minibatch > 1 and _ROWS.search(text) else None


def _without_wrappers(over: ast.expr) -> ast.expr:
    """What a loop runs over, without reversed(), enumerate() and the like."""
    while isinstance(over, ast.Call) and ast.unparse(over.func) in ("reversed", "enumerate", "tqdm", "list") and over.args:
        over = over.args[0]
    return over


def _number_of_range(code: Code, over: ast.expr) -> float | None:
    """The length of a range whose ends the file says."""
    if not (isinstance(over, ast.Call) and ast.unparse(over.func) == "range" and over.args):
        return None
    ends = [constant(code, end) for end in over.args]
    if any(end is None for end in ends):
        return None
    known = [int(end) for end in ends if end is not None]
    return float(len(range(*known))) if len(known) < 3 or known[2] else None


def constant(code: Code, node: ast.expr) -> float | None:
    """The number that an expression is, if the file says so in one place: a literal, a name that is set once, sums of those."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = constant(code, operand)
            return None if positive is None else -positive
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            a, b = constant(code, left), constant(code, right)
            if a is None or b is None:
                return None
            return a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else a * b
        case ast.Name() | ast.Attribute():
            return _set_once(code, ast.unparse(node))
        case _:
            return None


def _set_once(code: Code, name: str) -> float | None:
    """The literal that a name is set to, if nothing else sets it: no other assignment, argument or loop."""
    values: list[ast.expr | None] = []
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Assign):
            values += [node.value for target in node.targets if ast.unparse(target) == name]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.NamedExpr):
            values += [None] if ast.unparse(node.target) == name else []
        elif isinstance(node, ast.arg) and node.arg == name:
            values.append(None)
    match values:
        case [ast.Constant(value=int() | float() as value)]:
            return value
        case _:
            return None


# -- cost --


@dataclass(frozen=True)
class Cost:
    """What a loop costs: where it is, how often its body runs, and for how long each time."""

    where: str
    trips: float | None
    seconds: float | None  # of one trip
    per: str  # what it is run for: "update", "environment step"

    def sentence(self) -> str:
        """Nothing, where nothing is known."""
        if self.trips is None:
            return ""
        each = f", {units.seconds(self.seconds)} each" if self.seconds is not None else ""
        return f"The loop at {self.where} makes {self.trips:,.0f} trips per {self.per}{each}."


def cost_of(e: Evidence, loop_of: Callable[[StackSample], WorkLoop | None]) -> Cost | None:
    """The costs of the loop in which most of the time was spent."""
    seen: defaultdict[Key, list[tuple[StackSample, WorkLoop]]] = defaultdict(list)
    for stack in e.stack_samples:
        if (loop := loop_of(stack)) is not None:
            seen[loop.key].append((stack, loop))
    if not seen:
        return None
    times = {key: sum(e.weight(stack) for stack, _ in pairs) for key, pairs in seen.items()}
    key = max(times, key=lambda key: times[key])
    pairs = seen[key]
    stage = max(pairs, key=lambda pair: e.weight(pair[0]))[0].stage
    loop = pairs[0][1]
    number = trips(e, loop, stage)
    per, rounds = _rounds(e, loop, stage)
    known = number and rounds and _is_called_once(e, pairs)
    seconds = times[key] * e.wall / (rounds * number) if known and number else None
    return Cost(f"{key[0]}:{key[1]}", number, seconds, per)


def _rounds(e: Evidence, loop: WorkLoop, stage: str) -> tuple[str, float]:
    """What a loop is run for, and how often that was."""
    if loop.in_environment:
        return "environment step", e.env_steps
    if stage.startswith((stages.UPDATE, stages.SAMPLE)):
        return "update", e.updates
    return "run of it", 0.0


def _is_called_once(e: Evidence, pairs: list[tuple[StackSample, WorkLoop]]) -> bool:
    """Whether one chain of lines leads to a loop, and no other work loop is around it: then it runs once per round."""
    chains: defaultdict[tuple[tuple[str, int], ...], float] = defaultdict(float)
    for stack, loop in pairs:
        chains[loop.chain] += e.weight(stack)
        if next(e.work_loops(stack)).key != loop.key:
            return False
    total = sum(chains.values())
    return sum(time > 2 * SELDOM * total for time in chains.values()) == 1
