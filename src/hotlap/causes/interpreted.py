"""Work that Python does element by element: one rule for loops, wherever they are; the place gives the name."""

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hotlap.causes.cause import Cause, Suspicion
from hotlap.causes.drop_ins import all_steps_at_once, rows_at_once
from hotlap.causes.evidence import Evidence
from hotlap.causes.loops import WorkLoop
from hotlap.causes.remedy import Context, config, recorded, switch
from hotlap.causes.stacks import StackSample
from hotlap.causes.trips import cost_of
from hotlap.core import stages, units
from hotlap.core.errors import UsageError
from hotlap.core.paths import ENVIRONMENT, LOSS, RESET, STEP
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.stacks import Frame

LEAST = 0.05  # share of the time below which a loop is not worth a word
_TREE = re.compile(r"tree|prior|propagat|retriev|segment|sum_?tree", re.IGNORECASE)
_PARAMETERS = re.compile(r"\.parameters\(\)|\.named_parameters\(\)|state_dict\(\)|param_groups|\bparams\b(?![\[.])")
_ROWS = re.compile(r"\.size\(0\)|\.shape\[0\]|\blen\(|batch|sample|transition|memory|replay|experience", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """Where a loop is, what it is called there, and how much of its time a rewrite saves."""

    stage: str
    words: str  # what took the time, before "took 12%"
    loop_of: Callable[[Evidence, StackSample], WorkLoop | Frame | None]  # the loop or the recursion that is at this place
    saves: tuple[float, float, float]  # least, most, and what is expected
    blames_loop: bool = False  # the line inside the loop, rather than the innermost line of user code


def interpreted(e: Evidence, place: Place) -> Suspicion | None:
    """Stack samples in a loop at this place, with the number of its trips and the cost of one where they are known."""

    def looping(stack: StackSample) -> bool:
        return place.loop_of(e, stack) is not None

    def loop_of(stack: StackSample) -> WorkLoop | None:
        loop = place.loop_of(e, stack)
        return loop if isinstance(loop, WorkLoop) else None

    def line_of(stack: StackSample) -> Frame | None:
        loop = loop_of(stack)
        return loop.frame if loop is not None and place.blames_loop else stack.user_frame

    share = e.time_in(looping)
    if share < LEAST:
        return None
    cost = cost_of(e, loop_of)
    evidence = [f"{place.words} took {units.share(share)} of the time.", cost.sentence() if cost else ""]
    least, most, expected = place.saves
    saved = e.seen(share, least, most, expected)
    return Suspicion(place.stage, tuple(filter(None, evidence)), saved, e.where(looping, line_of), covers=looping)


def is_backwards(loop: object) -> bool:
    """A loop from the last step of a rollout to the first."""
    if not isinstance(loop, ast.For):
        return False
    over = ast.unparse(loop.iter)
    return over.startswith("reversed(") or bool(re.match(r"range\(.+, -1, -1\)", over))


def is_over_parameters(loop: object) -> bool:
    return isinstance(loop, ast.For) and bool(_PARAMETERS.search(ast.unparse(loop.iter)))


# -- in the environment --


def _environment_loop(e: Evidence, stack: StackSample) -> WorkLoop | Frame | None:
    """A loop or a recursion below a step, of which no library does the work."""
    if stack.stage not in ENVIRONMENT or stack.waited > 0.5 * stack.seconds or _asks_workers(stack):
        return None
    if (loop := next((loop for loop in e.work_loops(stack) if loop.in_environment), None)) is not None:
        return loop
    below = [frame for frame in stack.below_step() if frame.user]
    names = [(frame.file, frame.name) for frame in below]
    return below[-1] if len(set(names)) < len(names) else None


def _asks_workers(stack: StackSample) -> bool:
    """A message to a process or its answer: no rule of a game."""
    return any("multiprocessing/" in frame.file for frame in stack.frames)


IN_ENVIRONMENT = Place(STEP, "Python loops inside environments", _environment_loop, (0.8, 1.0, 0.9))


def environment_loop(e: Evidence) -> Suspicion | None:
    """Stack samples in lines of an environment that a loop or a recursion of user code repeats."""
    if not e.is_system:
        return interpreted(e, IN_ENVIRONMENT)
    share = e.exclusive_share(STEP, RESET) if not e.config.get("turbo") and _has_kernel(e.run.header.target) else 0.0
    if share < LEAST:
        return None
    evidence = f"{IN_ENVIRONMENT.words} took {units.share(share)} of the time ({e.num_envs} environments, one core)."
    return Suspicion(STEP, (evidence,), e.seen(share, *IN_ENVIRONMENT.saves))


def _has_kernel(system: str) -> bool:
    """Whether hotlap has this system's environment compiled."""
    from hotlap import systems  # late: a system brings torch along

    with suppress(UsageError):  # a plugin's, which is not installed here
        return systems.has_kernel(system)
    return False


def compiled_loop(c: Context, f: Finding) -> list[Intervention]:
    if c.evidence.is_system:
        return [config("turbo", turbo=True)]
    return [*c.edited(f, f"{c.function(f)} compiled with Numba", rewrite.jitted), *recorded(c, f)]


ENVIRONMENT_LOOP = Cause(
    id="env-python-loop",
    title="the environment's rules run in interpreted Python loops",
    fix="write the loop with numpy over all environments, or in C or Numba",
    rule=environment_loop,
    confirm="compile the function, or return its recorded results",
    remedies=compiled_loop,
    sources=("AgileRL/AgileRL#340", "S3"),
)


# -- in the computation of advantages --


def _backwards_loop(e: Evidence, stack: StackSample) -> WorkLoop | None:
    return next((loop for loop in e.work_loops(stack) if is_backwards(loop.node)), None)


def gae_loop(e: Evidence) -> Suspicion | None:
    """Stack samples in a loop that runs backwards over the steps of a rollout."""
    words = "A loop backwards over the rollout's steps"
    return interpreted(e, Place(stages.ADVANTAGE, words, _backwards_loop, (0.85, 1.0, 0.92)))


def without_the_loop(c: Context, f: Finding) -> list[Intervention]:
    if f.where is None:
        return [switch("advantages by hotlap's kernel", "gae-kernel")]
    return all_steps_at_once(c, f)


GAE_LOOP = Cause(
    id="gae-loop",
    title="advantages are computed by a loop of tiny tensor operations",
    fix="what needs no loop for all steps at once (hotlap.fast.returns), or the same loop over numpy arrays",
    rule=gae_loop,
    confirm="all steps at once, or the same loop over numpy arrays",
    remedies=without_the_loop,
    sources=("verl-project/verl#2132", "pytorch/rl#1052"),
)


# -- in prioritised replay --


def _tree_walk(e: Evidence, stack: StackSample) -> WorkLoop | Frame | None:
    """A loop or a recursion of a function about trees or priorities, called once for each element of a batch."""
    if stack.stage.startswith("collect/env"):
        return None
    loops = list(e.work_loops(stack))
    for frame in stack.frames:
        if frame.user and _TREE.search(frame.name + _class_name(e, frame)) and (e.loops(frame) or _recurses(stack)):
            outer = [loop for loop in loops if _is_for(loop.node) and _is_around(e, stack, loop, frame)]
            if outer:
                return outer[0]
    return None


def _is_around(e: Evidence, stack: StackSample, loop: WorkLoop, frame: Frame) -> bool:
    """Whether a loop calls a frame's function, or holds the loop that walks, in the same function."""
    if loop.frame == frame:
        return len(e.loops(frame)) > 1
    return stack.frames.index(loop.frame) < stack.frames.index(frame)


def _is_for(node: ast.AST) -> bool:
    return isinstance(node, ast.For | ast.ListComp | ast.GeneratorExp)


def _class_name(e: Evidence, frame: Frame) -> str:
    code = e.codes.get(frame.file)
    owner = code.class_of(frame.line) if code else None
    return f" {owner.name}" if owner else ""


def _recurses(stack: StackSample) -> bool:
    names = [(frame.file, frame.name) for frame in stack.frames if frame.user]
    return len(set(names)) < len(names)


def python_tree(e: Evidence) -> Suspicion | None:
    """Stack samples in loops or recursions of functions about trees or priorities, called for one element at a time."""
    words = "Walking a tree of priorities in Python"
    return interpreted(e, Place(stages.SAMPLE, words, _tree_walk, (0.8, 0.97, 0.88)))


PYTHON_TREE = Cause(
    id="per-python-tree",
    title="priorities live in a tree that Python walks node by node",
    fix="a tree in an array, updated and searched for the whole batch at once (hotlap.fast.prioritised)",
    rule=python_tree,
    confirm="return recorded draws",
    remedies=recorded,
    sources=("Kaixhin/Rainbow#74",),
    explains=("sampler-capacity", "list-to-tensor", "deque-sampling", "loss-python-loop"),
)


# -- in the loss --


def _row_loop(e: Evidence, stack: StackSample) -> WorkLoop | None:
    """A loop over the rows of a minibatch: not backwards in time, not over parameters or layers, and no recurrence."""
    if stack.stage not in (LOSS, stages.UPDATE, stages.ADVANTAGE) or stack.waited > 0.5 * stack.seconds:
        return None
    if any(frame.file.endswith("modules/rnn.py") for frame in stack.frames):
        return None
    loops = list(e.work_loops(stack))
    if any(is_backwards(loop.node) for loop in loops):  # returns, computed for one environment after another
        return None
    for loop in loops:
        if _is_for(loop.node) and not is_backwards(loop.node) and not is_over_parameters(loop.node):
            return loop if _is_over_rows(loop.node) and not _carries(loop.node) else None
    return None


def _is_over_rows(node: ast.AST) -> bool:
    """`for i in range(n)` with x[i] inside, `for row in batch`, `for s, a, r in zip(states, actions, rewards)`."""
    target, over = _target_and_iter(node)
    text = ast.unparse(over)
    if text.startswith(("range(", "enumerate(range(")):
        names = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
        return any(isinstance(part, ast.Subscript) and _selects_row(part.slice, names) for part in ast.walk(node))
    return bool(_ROWS.search(text)) or (text.startswith(("zip(", "enumerate(zip(")) and "layer" not in text)


def _target_and_iter(node: ast.AST) -> tuple[ast.expr, ast.expr]:
    loop = node.generators[0] if isinstance(node, ast.ListComp | ast.GeneratorExp) else node
    assert isinstance(loop, ast.For | ast.comprehension)
    return loop.target, loop.iter


def _selects_row(index: ast.expr, names: set[str]) -> bool:
    """x[i] or x[i, ...]: along the first axis."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    return isinstance(first, ast.Name) and first.id in names


def _carries(node: ast.AST) -> bool:
    """Whether a trip needs what the one before it computed, as in a recurrence: then the rows are steps of time."""
    if not isinstance(node, ast.For):
        return False
    target = {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
    for part in node.body:
        for statement in ast.walk(part):
            if isinstance(statement, ast.Assign):
                read = {name.id for name in ast.walk(statement.value) if isinstance(name, ast.Name)}
                made = {name.id for goal in statement.targets for name in _names(goal)}
                if (made & read) - target:
                    return True
    return False


def _names(goal: ast.expr) -> list[ast.Name]:
    """The plain names that an assignment sets; an element of an array is another matter."""
    parts = goal.elts if isinstance(goal, ast.Tuple | ast.List) else [goal]
    return [part for part in parts if isinstance(part, ast.Name)]


IN_LOSS = Place(LOSS, "A loop over the rows of a minibatch, in the loss,", _row_loop, (0.88, 0.98, 0.92), blames_loop=True)


def loss_loop(e: Evidence) -> Suspicion | None:
    """Stack samples in a loop of user code over the rows of a minibatch, while learning."""
    return interpreted(e, IN_LOSS)


LOSS_LOOP = Cause(
    id="loss-python-loop",
    title="the loss handles the rows of a minibatch one by one",
    fix="one operation over the whole batch: index_add_, gather, scatter_add_, broadcasting",
    rule=loss_loop,
    confirm="all rows at once, or skip the loop",
    remedies=rows_at_once,
    sources=("vwxyzjn/cleanrl",),
    explains=("tiny-minibatch", "utd-high", "launch-bound", "oversized-net", "list-to-tensor", "hidden-sync"),
)

CAUSES = (ENVIRONMENT_LOOP, GAE_LOOP, PYTHON_TREE, LOSS_LOOP)
