"""Where the data of an environment step goes, in the source of the functions around it. Nothing runs here.

What `env.step` returned is fresh, and so are what is made from it and what was chosen before it in the same loop. A statement
that uses it stores (`collect/store`): it puts the transition somewhere, or prepares it for that. A function that is given fresh
data and also trains is followed inside; so is the caller of a function that hands fresh data back. After the loop that steps,
lists that it filled may be stored elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from hotlap.core.paths import STORE
from hotlap.probe.syntax import (
    DEFINITIONS,
    LOOPS,
    MODULES,
    Block,
    Function,
    Span,
    are_related,
    arguments,
    blocks_of,
    called,
    callee,
    grown,
    holds,
    is_dropped_call,
    last_name,
    owner_of,
    path_to,
    reads,
    receiver,
    span,
    statements_in,
    touches,
    towards,
    writes,
    yields,
)


@dataclass(frozen=True)
class Handed:
    """A statement that trains, and the fresh names that it uses."""

    statement: ast.stmt
    fresh: frozenset[str]


@dataclass(frozen=True)
class Flow:
    """Where fresh data goes in a function."""

    spans: tuple[Span, ...] = ()
    handed: tuple[Handed, ...] = ()
    sinks: frozenset[str] = frozenset()  # functions that get fresh data and give nothing back
    is_returned: bool = False  # or yielded


def after_step(function: Function, line: int, training: frozenset[int]) -> Flow:
    """From the statement that steps the environment, or calls what steps it, to the end of the loop around it.

    `training` are the lines of the function at which it trains.
    """
    path = path_to(function.body, line)
    if not path:
        return Flow()
    block, index = path[-1]
    step = block[index]
    flow = _Tracer(_chosen(function, path) | (set() if blocks_of(step) else writes(step)), training)
    flow.is_returned = isinstance(step, ast.Return)
    flow.sources = {name for name in towards(function, training) if not are_related({name}, {receiver(step), *MODULES})}
    if isinstance(step, (ast.For, ast.AsyncFor)):  # `for transition in play(env)`
        flow.fresh = writes(step.target)
        flow.follow(step.body)
    for block, index in reversed(path):
        flow.follow(block[index + 1 :])
        if isinstance(owner_of(function, block), LOOPS):
            if flow.has_left:
                break
            flow.leave_loop()
    return flow.result()


def _chosen(function: Function, path: list[tuple[Block, int]]) -> set[str]:
    """What was assigned before the step in the loop around it: the action, its log-probability, the value of the state."""
    names: set[str] = set()
    for block, index in reversed(path):
        for statement in statements_in([block[:index]]):
            names |= set() if blocks_of(statement) else writes(statement)
        if isinstance(owner_of(function, block), LOOPS):
            return names
    return set()


def from_parameters(function: Function, handed: Handed, training: frozenset[int]) -> Flow:
    """Inside a function that a statement gave fresh data to."""
    if isinstance(function, ast.Module):
        return Flow()
    flow = _Tracer(_fresh_parameters(function, handed), training)
    flow.follow(function.body)
    return flow.result()


@dataclass
class _Tracer:
    fresh: set[str]
    training: frozenset[int]
    kept: set[str] = field(default_factory=set)  # lists that fresh data was put into
    sources: set[str] = field(default_factory=set)  # what training learns from, in this function
    has_left: bool = False  # the loop that steps: from then on, only what is kept is passed on
    is_returned: bool = False
    spans: list[Span] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    sinks: set[str] = field(default_factory=set)

    def result(self) -> Flow:
        return Flow(tuple(self.spans), tuple(self.handed), frozenset(self.sinks), self.is_returned)

    def leave_loop(self) -> None:
        self.fresh, self.has_left = set(), True

    def follow(self, block: Block) -> None:
        for statement in block:
            if not isinstance(statement, DEFINITIONS):
                self._follow(statement)

    def _follow(self, statement: ast.stmt) -> None:
        trains = holds(statement, self.training)
        blocks = blocks_of(statement)
        if blocks and (trains or not self._only_stores(statement)):
            if isinstance(statement, (ast.For, ast.AsyncFor)) and touches(reads(statement.iter), self.fresh):
                self.fresh |= writes(statement.target)
            for block in blocks:
                self.follow(block)
        elif not self._uses(statement):
            self.fresh -= writes(statement)
        elif trains:
            self.handed.append(Handed(statement, frozenset(self.fresh)))
        else:
            self.is_returned = self.is_returned or isinstance(statement, ast.Return) or yields(statement)
            self.spans.append(span(statement, STORE))
            self.fresh |= _made_from(statement, self.fresh)
            self.kept |= grown(statement)
            self.sinks.update(called(s) for s in statements_in([[statement]]) if is_dropped_call(s))

    def _uses(self, statement: ast.stmt) -> bool:
        if touches(reads(statement), self.fresh):
            return True
        if not is_dropped_call(statement) or "." not in callee(statement):
            return False
        fills = statement.lineno < min(self.training, default=0) and bool(arguments(statement)) and not self.has_left
        return (fills and are_related({receiver(statement)}, self.sources)) or touches(arguments(statement), self.kept)

    def _only_stores(self, loop: ast.stmt) -> bool:
        """Whether this is a loop that stores and does nothing beside it: one span is cheaper to follow than many."""
        if not isinstance(loop, LOOPS) or not self._uses(loop):
            return False
        fresh = self.fresh | writes(loop)
        return all(touches(reads(s), fresh) for s in statements_in(blocks_of(loop)) if is_dropped_call(s))


def _fresh_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, handed: Handed) -> set[str]:
    """The parameters of a function that get fresh data where it is called."""
    arguments_ = function.args
    parameters = [arg.arg for arg in (*arguments_.posonlyargs, *arguments_.args)]
    if parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    rest = [arg.arg for arg in (arguments_.vararg, arguments_.kwarg) if arg is not None]
    names: set[str] = set()
    for call in ast.walk(handed.statement):
        if not isinstance(call, ast.Call) or last_name(call.func) != function.name:
            continue
        for place, argument in enumerate(call.args):
            if _is_fresh(argument, handed.fresh):
                one = parameters[place : place + 1] or rest
                names.update(parameters + rest if isinstance(argument, ast.Starred) else one)
        for keyword in call.keywords:
            if _is_fresh(keyword.value, handed.fresh):
                names.update([keyword.arg] if keyword.arg in parameters else parameters + rest)
    return names


def _made_from(statement: ast.stmt, fresh: set[str]) -> set[str]:
    """The names that a statement assigns fresh data to: `position, obs = position + 1, next_obs` makes one of them fresh."""
    names: set[str] = set()
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        value = statement.value  # type: ignore[attr-defined]
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
            return writes(statement)
        pairs += zip(target.elts, value.elts)
    for part, value in pairs:
        names |= writes(part) if touches(reads(value), fresh) else set()
    return names if pairs else writes(statement)


def _is_fresh(argument: ast.expr, fresh: Iterable[str]) -> bool:
    return touches(reads(argument), set(fresh))
