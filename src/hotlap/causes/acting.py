"""How actions are chosen."""

import ast
import re

from hotlap.causes import curves
from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.curves import Factor
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, environment, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import FORWARDS, GRADIENT_FORWARDS
from hotlap.core.paths import ACT, LOSS, STEP, STORE
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.stacks import Frame
from hotlap.record.what_if import NO_GRADIENTS, UNCHECKED, Change

MANY = 32  # environments from which a call of a small network is well used
_AGENTS = re.compile(r"\.items\(\)|agent|player|\bobs|\benvs?\b|names?\b")
SMALL = 1_000_000  # parameters below which a network may be too small for a GPU


def _acting(stack: StackSample) -> bool:
    return stack.stage == ACT


def tiny_policy(e: Evidence) -> Suspicion | None:
    """A network below a million parameters on a GPU that is idle for most of the time."""
    busy, share = e.gpu_busy, e.inclusive_share(stages.UPDATE) + e.inclusive_share(ACT)
    if busy is None or busy > 0.3 or e.parameters > SMALL or e.minibatch > 1024 or share < 0.2:
        return None
    evidence = f"The GPU is busy for {units.share(busy)} of the time; {e.parameters:,} parameters take {units.share(share)}."
    return Suspicion(LOSS, (evidence,), Saved(0.5 * share, 0.05 * share, 0.8 * share))


def on_cpu(c: Context, f: Finding) -> list[Intervention]:
    return [environment("on the CPU", CUDA_VISIBLE_DEVICES="")]


TINY_POLICY = Cause(
    id="gpu-tiny-policy",
    title="the network is too small for the GPU: copies and launches take longer than its arithmetic",
    fix="train on the CPU",
    rule=tiny_policy,
    confirm="the whole loop on the CPU",
    remedies=on_cpu,
    sources=("araffin/sbx#35", "DLR-RM/stable-baselines3#2012"),
    explains=("launch-bound", "hidden-sync"),
)


BESIDE_A_PASS = Factor(0.2, 0.08, 0.4)  # what else acting does for each of them, if it is done for all at once


def batch1(e: Evidence) -> Suspicion | None:
    """Several environments, or agents in one, and one call of the network, on one row, for each step of each."""
    share = e.exclusive_share(ACT)
    calls, batch = e.counters.act_calls_per_env_step or 0.0, e.counters.act_batch or 0.0
    if round(batch) in {net.inputs for net in e.nets}:
        batch = 1.0  # one row, without an axis for rows
    agents = round(calls) if e.num_envs < 2 and calls >= 3 and _acts_for_each(e) else 1
    number = max(e.num_envs, agents)
    if number < 2 or calls < 0.7 or batch > 1.5 or share < 0.08:
        return None
    part = 1 - 1 / number
    saved = Saved(share * part * 0.92, share * part * 0.6, share * part)
    if together := e.curves.times(Change.ACTING_ROWS, number):
        factor = together.over(number).mixed(e.curves.part(Change.ACTING_ROWS), BESIDE_A_PASS)
        saved = curves.saved(e.changed(factor, ACT))
    of_what = "agents" if agents > 1 else "environments"
    evidence = (
        f"{number} {of_what}, and the network runs {calls:.2f} times per environment step, on {batch:.0f} row at a time; "
        f"acting takes {units.share(share)} of the time."
    )
    return Suspicion(ACT, (evidence,), saved, e.where(_acting), covers=_acting)


def _acts_for_each(e: Evidence) -> bool:
    """Whether actions are chosen in a loop over agents or their observations."""

    def one_by_one(stack: StackSample) -> bool:
        around = [node for frame in stack.frames if frame.user for node in e.loops(frame)]
        return any(isinstance(node, ast.For) and _AGENTS.search(ast.unparse(node.iter)) for node in around)

    return e.time_in(lambda stack: _acting(stack) and one_by_one(stack)) > 0.5 * e.time_in(_acting)


BATCH1 = Cause(
    id="batch1-inference",
    title="the network runs once per environment or agent",
    fix="collect the observations of all environments and agents, and run it once",
    rule=batch1,
    sources=("entity-neural-network/incubator#15", "AgileRL/AgileRL#620"),
    explains=("too-few-envs", "grad-in-rollout", "list-to-tensor"),
)


def grad_in_rollout(e: Evidence) -> Suspicion | None:
    """Passes that choose actions build graphs, and the loss runs the network again."""
    share = e.exclusive_share(ACT)
    built, passes = e.count(f"{GRADIENT_FORWARDS}@{ACT}"), e.act_calls
    if not passes or built < 0.5 * passes or share < 0.05:
        return None
    if not e.count(f"{FORWARDS}@{LOSS}"):  # the graph of acting is what it learns from
        return None
    evidence = (
        f"{units.share(built / passes)} of the passes that choose actions built a graph; acting takes "
        f"{units.share(share)} of the time, and the loss runs the network again."
    )
    where = e.where(_acting, lambda stack: _calls_network(e, stack))
    saved = Saved(0.3 * share, 0.1 * share, 0.55 * share)
    if without := e.curves.form(Change.GRADIENTS, NO_GRADIENTS):
        rest = Factor((1 + without.value) / 2, without.value, 1.0)  # what follows a pass has no graph either
        saved = curves.saved(e.changed(without.mixed(e.curves.part(Change.GRADIENTS), rest), ACT))
    return Suspicion(ACT, (evidence,), saved, where)


def _calls_network(e: Evidence, stack: StackSample) -> Frame | None:
    """The innermost line of user code that acts and does not learn: not inside the network, which does both."""
    for frame in reversed(stack.frames):
        if frame.user and frame.name != "forward" and (frame.file, frame.line) not in e.learning_lines:
            return frame
    return None


def without_grad(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "acting without gradients", rewrite.no_grad)


GRAD_IN_ROLLOUT = Cause(
    id="grad-in-rollout",
    title="acting builds graphs for gradients that nobody takes",
    fix="act under torch.inference_mode() or torch.no_grad()",
    rule=grad_in_rollout,
    confirm="act without gradients",
    remedies=without_grad,
    sources=("kengz/SLM-Lab#314", "ray-project/ray#6962"),
)


def dist_validate(e: Evidence) -> Suspicion | None:
    """Stack samples inside the checks of torch.distributions."""

    def checking(stack: StackSample) -> bool:
        return any(
            (frame.file.endswith("distributions/distribution.py") and frame.name in ("__init__", "_validate_sample"))
            or frame.file.endswith("distributions/constraints.py")
            for frame in stack.frames
        )

    share = e.time_in(checking)
    if share < 0.03:
        return None
    evidence = f"Checks of distributions' arguments took {units.share(share)} of the time."
    return Suspicion(ACT, (evidence,), _unchecked(e, share), e.where(checking), covers=checking)


def _unchecked(e: Evidence, share: float) -> Saved:
    """The share of checks that was sampled, and what the curve says of all time in distributions: between the two."""
    without = e.curves.form(Change.CHECKS, UNCHECKED)
    if without is None:
        return e.seen(share, 0.8, 1.0)
    inside = e.time_in(lambda stack: any(_made_or_asked(frame) for frame in stack.frames))
    low, high = sorted((share, inside * (1 - without.value)))
    value = (low + high) / 2
    return Saved(value, 0.9 * low, 1.1 * high + curves.REST * (1 - high))


def _made_or_asked(frame: Frame) -> bool:
    """A distribution is made, or asked for a log-probability."""
    return "torch/distributions/" in frame.file and frame.name in ("__init__", "log_prob")


def without_checks(c: Context, f: Finding) -> list[Intervention]:
    title = "distributions do not check"
    return c.edited_all(title, rewrite.validate_off)[:1] or [switch(title, "validate-off")]


DIST_VALIDATE = Cause(
    id="dist-validate",
    title="distributions check their arguments each time they are made",
    fix="torch.distributions.Distribution.set_default_validate_args(False)",
    rule=dist_validate,
    confirm="checks off",
    remedies=without_checks,
    sources=("ray-project/ray#50440", "pytorch/pytorch#48743"),
)


def too_few_envs(e: Evidence) -> Suspicion | None:
    """One call of the network serves few environments, and acting takes much of the time."""
    if not e.act_calls or e.envs_per_call >= 8 or e.num_envs >= 8:
        return None
    share = e.exclusive_share(ACT, STORE, stages.COLLECT, stages.UNATTRIBUTED)
    n = max(e.envs_per_call, 1.0)
    part, stepping = 1 - n / MANY, e.exclusive_share(STEP)  # of a step, what a vector does once per call goes away too
    saved = Saved((share * 0.95 + 0.5 * stepping) * part, share * part * 0.7, (share + 0.9 * stepping) * part)
    if together := e.curves.times(Change.ACTING_ROWS, MANY / n):
        once = together.softened()  # what is done once per call, on more rows
        acting = together.mixed(e.curves.part(Change.ACTING_ROWS), once).over(MANY / n)
        rest = e.changed(once.over(MANY / n), STORE, stages.COLLECT, stages.UNATTRIBUTED)
        saved = curves.saved([*e.changed(acting, ACT), *rest, *e.changed(e.curves.step(once.over(MANY / n)), STEP)])
    if share * part < 0.15:
        return None
    evidence = (
        f"One call of the network serves {n:.0f} environment{'s' if n > 1.5 else ''}; acting and storing take "
        f"{units.share(share)} of the time, whatever the number of environments."
    )
    return Suspicion(ACT, (evidence,), saved, parameters={"num_envs": float(e.num_envs)})


def more_envs(c: Context, f: Finding) -> list[Intervention]:
    old = int(f.parameters.get("num_envs", 1))
    return c.scaled(r"num_envs|n_envs|num_env|n_env", old, min(32, max(8, old * 16)))


TOO_FEW_ENVS = Cause(
    id="too-few-envs",
    title="each call of the network and of the loop serves very few environments",
    fix="more environments per call",
    rule=too_few_envs,
    confirm="more environments",
    remedies=more_envs,
    sources=("alex-petrenko/sample-factory#29",),
    changes_learning=True,
)

CAUSES = (TINY_POLICY, BATCH1, GRAD_IN_ROLLOUT, DIST_VALIDATE, TOO_FEW_ENVS)
