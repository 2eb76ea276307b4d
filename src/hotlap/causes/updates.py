"""How an update is computed: losses, gradients, optimizers, compilers."""

import ast

from hotlap.causes import curves
from hotlap.causes.cause import NOTHING, Cause, Saved, Suspicion
from hotlap.causes.curves import Factor
from hotlap.causes.drop_ins import parameters_at_once
from hotlap.causes.evidence import Evidence
from hotlap.causes.interpreted import is_over_parameters
from hotlap.causes.remedy import Context, skipped_loop, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import COMPILED_GRAPHS
from hotlap.core.paths import ACT, BACKWARD, LOSS, OPTIMIZER, TARGET
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.lines import WARMUP
from hotlap.record.observed import OptimizerInfo
from hotlap.record.stacks import Frame
from hotlap.record.what_if import AT_ONCE, FOREACH, FUSED, Change

REST_OF_A_LOOP = Factor(0.2, 0.05, 0.45)  # over time: layers of which each step calls one, if one call took all steps


def anomaly(e: Evidence) -> Suspicion | None:
    """torch says that anomaly detection is on."""
    share = e.network_share
    if e.torch is None or not e.torch.anomaly or not share:
        return None
    evidence = f"Autograd's anomaly detection is on; learning and acting take {units.share(share)} of the time."
    learning, factor = e.inclusive_share(stages.UPDATE), e.curves.form(Change.ANOMALY)
    guess = Saved(0.5 * learning, 0.2 * learning, 0.8 * share)
    return Suspicion(BACKWARD, (evidence,), guess if factor is None else curves.saved(e.changed(factor, LOSS, BACKWARD)))


def anomaly_off(c: Context, f: Finding) -> list[Intervention]:
    title = "autograd's debug mode off"
    return c.edited_all(title, rewrite.anomaly_off) or [switch(title, "anomaly-off")]


ANOMALY = Cause(
    id="anomaly-on",
    title="autograd runs in its debug mode",
    fix="torch.autograd.set_detect_anomaly(False)",
    rule=anomaly,
    confirm="debug mode off",
    remedies=anomaly_off,
    sources=("Lightning-AI/pytorch-lightning#17359", "Xingyu-Lin/mbpo_pytorch#8"),
    explains=("grad-in-rollout", "tiny-minibatch", "utd-high", "launch-bound"),
)


def recompile(e: Evidence) -> Suspicion | None:
    """Graphs are compiled after warm-up, and stack samples lie in the compiler."""

    def compiling(stack: StackSample) -> bool:
        return any("torch/_dynamo" in frame.file or "torch/_inductor" in frame.file for frame in stack.frames)

    graphs, share = e.count(COMPILED_GRAPHS), e.time_in(compiling)
    if graphs < 3 or share < 0.05:
        return None
    evidence = f"{graphs:.0f} graphs were compiled after warm-up; compiling took {units.share(share)} of the time."
    return Suspicion(LOSS, (evidence,), e.seen(share, 0.8, 1.0), e.where(compiling), covers=compiling)


def compile_off(c: Context, f: Finding) -> list[Intervention]:
    return [switch("without torch.compile", "compile-off")]


RECOMPILE = Cause(
    id="recompile-churn",
    title="torch.compile compiles again and again, because shapes change",
    fix="pad to a few shapes, or mark the changing dimension dynamic",
    rule=recompile,
    confirm="without torch.compile",
    remedies=compile_off,
    sources=("meta-pytorch/torchtune#1395", "pytorch/pytorch#114293"),
    explains=("compile-unamortized", "tiny-minibatch", "oversized-net", "utd-high"),
)


def compile_unamortized(e: Evidence) -> Suspicion | None:
    """Graphs were made before the steady part, and took longer than half of all that was measured."""
    early = e.run.phase(WARMUP)
    graphs = sum(s.counts.get(COMPILED_GRAPHS, 0.0) for s in early)
    lost = sum(s.wall for s in early) * 1e-9
    if not graphs or e.count(COMPILED_GRAPHS) or lost < 10 or lost < 0.5 * e.wall:
        return None
    evidence = f"{graphs:.0f} graphs were compiled in the first {units.seconds(lost)}; they must save that much before it pays."
    return Suspicion(LOSS, (evidence,))


COMPILE_UNAMORTIZED = Cause(
    id="compile-unamortized",
    title="compiling takes longer than it saves in so short a run",
    fix="compile for long runs only, or keep the cache between runs",
    rule=compile_unamortized,  # advice only: experiments compare the time after warm-up, in which nothing is compiled
    sources=("google/brax#95",),
)


def rnn_loop(e: Evidence) -> Suspicion | None:
    """Stack samples in a loop of user code that calls a recurrent layer step by step, while learning; and in the same loop when
    it acts, as a network of the last few observations does."""

    def loop_over_time(stack: StackSample) -> ast.AST | None:
        """The loop that the layer is called in."""
        if not any(frame.file.endswith("modules/rnn.py") for frame in stack.frames):
            return None
        return next((e.loops(frame)[-1] for frame in stack.frames if frame.user and _loops_over_time(e, frame)), None)

    def learns(stack: StackSample) -> bool:
        return stack.stage.startswith((stages.UPDATE, stages.SAMPLE))

    called = {id(loop) for stack in e.stack_samples if learns(stack) and (loop := loop_over_time(stack)) is not None}

    def stepping(stack: StackSample) -> bool:
        """In such a loop: what else it does goes with it."""
        around = (e.loops(frame) for frame in stack.frames if frame.user)
        return (learns(stack) or stack.stage == ACT) and any(id(loops[-1]) in called for loops in around if loops)

    share, learning = e.time_in(stepping), e.time_in(lambda stack: stepping(stack) and learns(stack))
    if learning < 0.05:
        return None
    backward = e.exclusive_share(BACKWARD) * min(1.0, learning / max(e.exclusive_share(LOSS), 1e-9))
    evidence = (
        f"A loop that calls a recurrent layer step by step took {units.share(share)} of the time, "
        f"its gradients {units.share(backward)}."
    )
    where = e.where(lambda stack: learns(stack) and loop_over_time(stack) is not None)
    factor, saved = e.curves.form(Change.SEQUENCE, AT_ONCE), e.seen(share + backward, 0.5, 0.97, 0.8)
    if factor is not None:  # what else the loop does may be part of the curve or not
        saved = _without(e.seen(share + backward), factor.mixed(e.curves.part(Change.SEQUENCE), REST_OF_A_LOOP))
    return Suspicion(LOSS, (evidence,), saved, where, covers=stepping)


def _loops_over_time(e: Evidence, frame: Frame) -> bool:
    """Whether the line that calls the layer is repeated by a loop over single time steps: x[:, t], or x[None] of each x."""
    for loop in e.loops(frame)[-1:]:
        names = [part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)] if isinstance(loop, ast.For) else []
        text = ast.unparse(loop)
        for name in names:
            selected = any(isinstance(node, ast.Subscript) and _selects(node.slice, name) for node in ast.walk(loop))
            counts = isinstance(loop, ast.For) and "range(" in ast.unparse(loop.iter)
            if (counts and selected) or f"{name}[None]" in text or f"{name}.unsqueeze(" in text:
                return True
    return False


def _selects(index: ast.expr, name: str) -> bool:
    """x[t], x[:, t] or x[:, t : t + 1]: one element, and no other slice."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    one = {name, f"{name}:{name} + 1"}
    return any(ast.unparse(part) in one for part in parts)


RNN_LOOP = Cause(
    id="rnn-seq-loop",
    title="a recurrent network is called step by step over sequences that are known",
    fix="one call with the whole padded sequence",
    rule=rnn_loop,
    confirm="skip the loop",
    remedies=skipped_loop,
    sources=("Stable-Baselines-Team/stable-baselines3-contrib#113",),
    explains=("tiny-minibatch", "utd-high", "oversized-net", "launch-bound"),
)


def param_loops(e: Evidence) -> Suspicion | None:
    """Stack samples in loops over parameters; optimizers that step through tensors one by one."""

    def looping(stack: StackSample) -> bool:
        if stack.stage == OPTIMIZER and not stack.learns() and next(e.work_loops(stack), None) is not None:
            return True  # an optimizer that is written by hand
        return any(frame.user and any(is_over_parameters(loop) for loop in e.loops(frame)) for frame in stack.frames)

    share = e.time_in(looping)
    slow = [o for o in e.description.optimizers if _is_plain(e, o) and o.tensors > 4]
    plain = e.exclusive_share(OPTIMIZER) if slow else 0.0
    if share < 0.05 and plain < (0.1 if any(o.foreach is False for o in slow) else 0.15):
        return None
    evidence = []
    if share:
        evidence.append(f"Loops over parameters took {units.share(share)} of the time.")
    if slow:
        stage = f"the optimizer's stage, clipping included, takes {units.share(plain)}"
        evidence.append(f"{slow[0].name} steps through {slow[0].tensors} tensors one by one; {stage}.")
    place = TARGET if share >= plain else OPTIMIZER
    return Suspicion(place, tuple(evidence), _at_once(e, share, plain), e.where(looping), covers=looping)


def _at_once(e: Evidence, share: float, plain: float) -> Saved:
    """Loops and an optimizer's steps of these shares, if each took all tensors at once."""
    loop, step = e.curves.form(Change.PARAMETER_LOOP, FOREACH), e.curves.form(Change.OPTIMIZER, FOREACH, FUSED)
    loops = NOTHING
    if share:
        loops = e.seen(share, 0.5, 0.95, 0.75) if loop is None else _without(e.seen(share), loop)
    # Of the stage, steps are the larger part: clipping and setting gradients to zero stay as they are.
    steps = Saved(0.5 * plain, 0.2 * plain, 0.7 * plain)
    if step is not None:
        steps = _without(Saved(0.7 * plain, 0.5 * plain, plain), step)
    return Saved(loops.value + steps.value, loops.low + steps.low, loops.high + steps.high).narrowed()


def _without(share: Saved, factor: Factor) -> Saved:
    """What goes away of a share that changes by a factor."""
    return Saved(
        *(
            part * max(0.0, 1 - f)
            for part, f in zip((share.value, share.low, share.high), (factor.value, factor.high, factor.low), strict=True)
        )
    )


def _is_plain(e: Evidence, optimizer: OptimizerInfo) -> bool:
    """Whether it steps through tensors one by one: because it was told to, or because that is torch's default on a CPU."""
    by_default = optimizer.foreach is None and not e.on_gpu and optimizer.name in ("Adam", "AdamW", "SGD")
    return not optimizer.fused and (optimizer.foreach is False or by_default)


PARAM_LOOPS = Cause(
    id="per-param-loops",
    title="parameters are handled one by one, by a Python loop or by the optimizer",
    fix="one call for all parameters (hotlap.fast.polyak, or torch._foreach_*), an optimizer with fused=True",
    rule=param_loops,
    confirm="fused operations",
    remedies=parameters_at_once,
    sources=("DLR-RM/stable-baselines3#106", "deepmodeling/deepmd-kit#4463"),
    explains=("tiny-minibatch", "utd-high", "launch-bound"),
)


def float64(e: Evidence) -> Suspicion | None:
    """Networks hold or are given doubles."""
    doubles = any(net.dtype == "float64" for net in e.nets)
    if not doubles and e.profile.types.get("forward input") != "float64":
        return None
    share = e.network_share
    what = "Networks compute" if doubles else "Networks are given numbers"
    evidence = f"{what} in float64; learning and acting take {units.share(share)} of the time."
    saved = Saved(share * 0.4, share * 0.02, share * 0.6)  # twice the bytes, half the numbers per instruction
    return Suspicion(LOSS, (evidence,), saved) if saved.value > 0.02 else None


def float32(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited_all("float32", rewrite.float32, changes_learning=True),
        switch("float32", "float32", changes_learning=True),
    ]


FLOAT64 = Cause(
    id="float64-data",
    title="numbers are computed in double precision",
    fix="float32 from the environment on",
    rule=float64,
    confirm="float32",
    remedies=float32,
    sources=("kengz/SLM-Lab#326", "Unity-Technologies/ml-agents#2948"),
    explains=("oversized-net",),
)

CAUSES = (ANOMALY, RECOMPILE, COMPILE_UNAMORTIZED, RNN_LOOP, PARAM_LOOPS, FLOAT64)
