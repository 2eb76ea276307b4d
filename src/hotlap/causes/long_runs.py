"""What changes in the course of a run: leaks, and changes of speed without a fault."""

import ast
import re
from collections.abc import Iterator, Sequence

import numpy as np

from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context
from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, SPILLED_BYTES, UPDATES
from hotlap.core.paths import BACKWARD, ENVIRONMENT, LOSS, RESET, STEP, STEP_METHODS, WAIT
from hotlap.core.sample import Sample
from hotlap.interventions import rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.lines import BARE, TRACED

GROWN = 1.25  # times its early cost, from which a stage has grown
LEAK = 1_000_000  # bytes per second by which memory grows, from which something is kept
_BEGINS = re.compile(r"reset$|restart|new_(game|episode)|begin|start")  # how methods are called that begin an episode
_LONGER = ("append", "extend", "add", "update", "appendleft", "setdefault", "insert")
_JOINED = ("concatenate", "append", "vstack", "hstack", "cat", "stack", "concat")


def env_leak(e: Evidence) -> Suspicion | None:
    """Steps get slower with time, episodes do not get longer, and something is appended that reset does not clear."""
    grown = e.growth((STEP, RESET, WAIT))
    before, after = e.episode_lengths()
    if grown < GROWN or (before and after > 1.25 * before):
        return None
    where = _never_cleared(e)
    if not where and (e.memory_growth < LEAK or grown < 1.5):
        return None
    share = e.exclusive_share(STEP, RESET, WAIT)
    evidence = [f"A step of the environment takes {grown:.1f} times as long at the end of the run as at its start."]
    if where:
        evidence.append("Something is appended that reset does not clear.")
    early, late = 1 - 1 / grown, 1.0
    return Suspicion(STEP, tuple(evidence), Saved(share * (early + late) / 2, share * early * 0.5, share), where)


def _never_cleared(e: Evidence) -> str | None:
    """file:line of an attribute that an environment's methods append to and its reset does not clear."""
    steps = {*STEP_METHODS, *e.run.header.observed.step_names}
    places = (f"{name}:{line}" for name, code in e.codes.items() for line in _kept_lines(code, steps))
    inside = {frame.file for stack in e.stack_samples if stack.stage in ENVIRONMENT for frame in stack.below_step()}
    helpers = (f"{name}:{line}" for name, code in e.codes.items() if name in inside for line in _kept_by_helpers(code, steps))
    return next(places, None) or next(helpers, None)


def _kept_lines(code: Code, steps: set[str]) -> Iterator[int]:
    for node, methods in _classes(code):
        begins = next((methods[name] for name in ("reset", *sorted(methods)) if name in methods and _BEGINS.match(name)), None)
        if begins is None or not steps & methods.keys():
            continue
        reset, in_reset = ast.unparse(begins), set(ast.walk(begins))
        for owner, part in _growing(node, methods):
            if not any(f"{owner}{how}" in reset for how in (" = ", ".clear(", ": ")) or part in in_reset:
                yield part.lineno


def _kept_by_helpers(code: Code, steps: set[str]) -> Iterator[int]:
    """In classes that environments use: handlers that are added and never taken off, histories that nobody cuts."""
    for node, methods in _classes(code):
        text = ast.unparse(node)
        if not steps & methods.keys():
            for owner, part in _growing(node, methods):
                if not any(f"{owner}{how}" in text for how in (".clear(", ".remove(", ".discard(")) and "maxlen" not in text:
                    yield part.lineno


def _classes(code: Code) -> Iterator[tuple[ast.ClassDef, dict[str, ast.FunctionDef]]]:
    for node in code.walk(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        yield node, {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}


def _growing(node: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Attributes that methods make longer, and the code that does; not those that are cut somewhere in the class."""
    text = ast.unparse(node)
    for method in methods.values():
        for part in ast.walk(method):
            owner = _grows(part)
            if owner is None or not owner.startswith("self.") or method.name == "__init__":
                continue
            if not any(cut in text for cut in (f"{owner}.pop", f"del {owner}", f"{owner} = {owner}[")):
                assert isinstance(part, ast.expr | ast.stmt)
                yield owner, part


def _grows(node: ast.AST) -> str | None:
    """What a statement makes longer: `x.append(...)`, `x += ...`, `x = np.concatenate([x, ...])`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value) if node.func.attr in _LONGER else None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.value, ast.List | ast.ListComp):
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
        target, made = ast.unparse(node.targets[0]), ast.unparse(node.value)
        joined = ast.unparse(node.value.func).rpartition(".")[2] in _JOINED
        return target if joined and target in made.partition("(")[2] else None
    return None


def without_growth(c: Context, f: Finding) -> list[Intervention]:
    """What the line keeps may be needed: this shows what keeping it costs, and is not a fix."""
    return c.edited(f, "without the line that appends", rewrite.left_out, upper_bound=True, changes_learning=True)


ENV_LEAK = Cause(
    id="env-state-leak",
    title="the environment gathers objects from episode to episode, and gets slower",
    fix="clear in reset what step appends",
    rule=env_leak,
    confirm="leave out the line that appends",
    remedies=without_growth,
    sources=("BIT-MCS/Cadre#8", "facebookresearch/habitat-lab#1809"),
    explains=("env-python-loop", "serial-heavy-env", "harder-states"),
)


def graph_retention(e: Evidence) -> Suspicion | None:
    """Memory grows, updates get slower, or a loss is stored with its graph; or gradients get slower, and the loss does not."""
    grown = e.growth((BACKWARD, LOSS), UPDATES)
    where = _kept_graph(e)
    leaking = e.memory_growth > LEAK
    # A chain of graphs that gets longer costs gradients only: what is computed forwards stays as it was.
    chained = e.growth((BACKWARD,), UPDATES) > 1.5 and e.growth((LOSS,), UPDATES) < GROWN
    if not (where and (leaking or grown > GROWN)) and not (leaking and grown > 1.5) and not chained:
        return None
    share, collecting = e.inclusive_share(stages.UPDATE), e.counters.gc_share
    if chained:
        times = e.growth((BACKWARD,), UPDATES)
        evidence = [f"Gradients take {times:.1f} times as long as at first, while computing the loss takes as long as ever."]
    else:
        memory = f"Memory grows by {units.size(max(e.memory_growth, 0.0))} per second"
        evidence = [f"{memory}; an update takes {grown:.1f} times as long as at first."]
    if where:
        evidence.append("A tensor is stored with its graph.")
    part = share * (1 - 1 / grown)
    saved = Saved(min(0.9, 0.5 * (part + share) * 0.7 + collecting), 0.3 * part, min(0.95, share + collecting))
    return Suspicion(BACKWARD, tuple(evidence), saved, where)


def _kept_graph(e: Evidence) -> str | None:
    """file:line where a loss or value is stored with its graph: appended or summed up, neither read nor detached."""
    places = (f"{name}:{line}" for name, code in e.codes.items() for line in _graph_lines(code))
    return next(places, None)


def _graph_lines(code: Code) -> Iterator[int]:
    learned = [
        (call.func.value.id, code.function(call.lineno))
        for call in ast.walk(code.tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
        if isinstance(call.func.value, ast.Name)
    ]
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args:
            stored = node.args[0]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            stored = node.value
        else:
            continue
        losses = {loss for loss, function in learned if function is code.function(node.lineno)}
        if isinstance(stored, ast.Name | ast.BinOp | ast.Attribute) and any(
            isinstance(part, ast.Name) and part.id in losses for part in ast.walk(stored)
        ):
            yield node.lineno


def detached(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "stored without its graph", rewrite.detached)


GRAPH_RETENTION = Cause(
    id="graph-retention",
    title="tensors are kept with their graphs, so memory and time grow",
    fix="store loss.item() or tensor.detach()",
    rule=graph_retention,
    confirm="detach what is stored",
    remedies=detached,
    sources=("Kaixhin/Rainbow#33",),
    explains=("tiny-minibatch", "utd-high", "grad-in-rollout"),
)


def harder_states(e: Evidence) -> Suspicion | None:
    """Steps get slower with time, or slower and faster again, and nothing piles up."""
    grown, swings = e.growth((STEP, RESET, WAIT)), e.swing((STEP, RESET, WAIT))
    if (grown < GROWN and swings < 2) or e.exclusive_share(STEP, RESET, WAIT) < 0.1:
        return None
    before, after = e.episode_lengths()
    if grown >= GROWN:
        evidence = [f"A step of the environment takes {grown:.1f} times as long at the end of the run as at its start."]
    else:
        evidence = [f"The cost of a step goes up and down by a factor of {swings:.1f} during the run: it follows the state."]
    if before and after > 1.1 * before:
        evidence.append(f"Episodes grew from {before:.0f} to {after:.0f} steps: the states are others.")
    evidence.append("Nothing piles up that reset would have to clear.")
    return Suspicion(STEP, tuple(evidence))


HARDER_STATES = Cause(
    id="harder-states",
    title="the policy reaches states that take longer to step",
    fix="nothing to fix; count time per step and by state",
    rule=harder_states,
    sources=("leggedrobotics/raisimGym#30", "thu-ml/tianshou#140"),
    no_fault=True,
)


def learning_starts(e: Evidence) -> Suspicion | None:
    """Before the first update, for seconds, steps were cheaper."""
    samples = [line.sample for line in e.run.lines if line.phase not in (BARE, TRACED)]
    first = next((i for i, s in enumerate(samples) if s.counts.get(UPDATES)), None)
    if not first:
        return None
    before = [s for s in samples[:first] if s.counts.get(ENV_STEPS)]
    waited = sum(s.wall for s in before) * 1e-9
    if len(before) < 3 or waited < 2.0 or not e.samples:
        return None
    early, late = _step_rate(before), _step_rate(e.samples)
    if not late or early < 1.3 * late:
        return None
    evidence = (
        f"For the first {units.seconds(waited)} nothing was learned, at {units.count(early)} steps per second; since then "
        f"{units.count(late)}. That is what learning costs, no slowdown."
    )
    return Suspicion(stages.UPDATE, (evidence,))


def _step_rate(samples: Sequence[Sample]) -> float:
    return float(np.median([s.counts.get(ENV_STEPS, 0) / s.wall * 1e9 for s in samples]))


LEARNING_STARTS = Cause(
    id="learning-starts",
    title="before this point nothing was learned, so steps were cheaper",
    fix="nothing to fix; measure after learning has begun",
    rule=learning_starts,
    sources=("DLR-RM/stable-baselines3#904",),
    no_fault=True,
)


def store_spill(e: Evidence) -> Suspicion | None:
    """Files that Ray wrote for objects its store had no room for, on the machine of the driver, after warm-up."""
    spilled = e.count(SPILLED_BYTES)
    if not spilled or not e.wall:
        return None
    evidence = f"Ray's object store wrote {units.size(spilled / e.wall)} per second to disk."
    return Suspicion(stages.COLLECT, (evidence,), Saved(0.1, 0.0, 0.5))


STORE_SPILL = Cause(
    id="store-spill",
    title="Ray's object store is full and spills to disk",
    fix="smaller batches, or a bigger store: ray.init(object_store_memory=...)",
    rule=store_spill,
    sources=("ray-project/ray#7154",),
)

CAUSES = (ENV_LEAK, GRAPH_RETENTION, HARDER_STATES, LEARNING_STARTS, STORE_SPILL)
