"""The recipe's numbers: minibatch size, updates per step, width of the network. Their fixes can change what is learned."""

import math
from collections.abc import Callable
from dataclasses import replace

from hotlap.causes import curves
from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.curves import SAME, Factor, Part
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, config, edited_file, turned
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.paths import ACT, BACKWARD, LOSS, OPTIMIZER, TARGET
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Edit, Intervention
from hotlap.interventions.knobs import find
from hotlap.record.finding import Finding
from hotlap.record.observed import Net
from hotlap.record.what_if import Change

GOOD_BATCH = 256  # rows from which calling an operation of a small network costs little beside computing it
MOST_TIMES = 16
USUAL_UPDATES = 1.5  # per environment step, where one is the rule
FEW_UPDATES = 0.2  # per environment step: fewer than a DQN makes as a rule, however many environments one choice is for
MOST_LOOPS = 3  # that may hold the updates, and are tried
WIDER = 12  # times the inputs: from here a layer is called far wider than its task needs
WIDE = 512  # units from which a layer is called wide


def tiny_minibatch(e: Evidence) -> Suspicion | None:
    """Minibatches below 150 rows, whose updates take most of the time, of which arithmetic needs little."""
    batch, share = e.minibatch, e.update_share
    if not e.is_on_policy or not 0 < batch < 0.6 * GOOD_BATCH or share < 0.25 or not e.env_steps or not e.updates:
        return None
    compute = e.compute_share()
    overhead = 0.9 if compute is None else max(0.0, 1 - compute)
    times = min(GOOD_BATCH / batch, 16.0)
    part = overhead * (1 - 1 / times)
    most = share * part
    saved = Saved(most * 0.95, most * 0.5, most + 0.15 * (1 - most))
    larger = e.curves.times(Change.LEARNING_ROWS, times)
    if larger is not None:
        saved = curves.saved(_on_more_rows(e, larger, times))
    if saved.value < 0.1 or (larger is None and overhead < 0.4):
        return None
    each = e.inclusive_share(stages.UPDATE) * e.wall / e.updates
    arithmetic = f"its arithmetic needs {units.share(compute)} of that" if compute is not None else "of which part is overhead"
    evidence = (
        f"{e.updates / e.env_steps:.2g} updates per environment step, on {batch:.0f} rows each, take {units.share(share)}.",
        f"One update of {e.parameters:,} parameters takes {units.seconds(each)}; {arithmetic}.",
    )
    return Suspicion(LOSS, evidence, saved, parameters={"minibatch": batch, "times": times})


def _on_more_rows(e: Evidence, factor: Factor, times: float) -> list[Part]:
    """The stages of learning, if each update takes so many times as many rows: there are as many times fewer."""
    part, once = e.curves.part(Change.LEARNING_ROWS), factor.softened()
    return [
        *e.changed(factor.over(times), BACKWARD),
        *e.changed(factor.mixed(part, once).over(times), LOSS),
        *e.changed(once.over(times), stages.UPDATE, stages.SAMPLE),
        *e.changed(SAME.over(times), OPTIMIZER, TARGET),
    ]


def larger_minibatch(c: Context, f: Finding) -> list[Intervention]:
    old, times = f.parameters.get("minibatch", 0.0), f.parameters.get("times", 4.0)
    if not old:
        return []
    number = find(c.knobs, r"^(num|n)_?mini_?batch")
    if number and (number.default or "").isdecimal():  # so many minibatches: fewer are larger
        return [turned(number, max(1, int(number.default or 1) // round(times)), number.default or "")]
    return c.scaled(r"^(?!num_|n_)\w*(mini_?batch|batch_?size)", round(old), _power(old * times))


def _power(value: float) -> int:
    """The next power of two."""
    return 1 << max(0, round(value) - 1).bit_length()


TINY_MINIBATCH = Cause(
    id="tiny-minibatch",
    title="minibatches are so small that calling the operations takes longer than computing them",
    fix="larger minibatches (adjust the learning rate)",
    rule=tiny_minibatch,
    confirm="larger minibatches",
    remedies=larger_minibatch,
    sources=("S0",),
    changes_learning=True,
    explains=("oversized-net", "launch-bound", "per-param-loops"),
)


def utd(e: Evidence) -> Suspicion | None:
    """Off-policy, three updates or more after each choice of actions, and they take most of the time. SAC, TD3 and the like
    make one per environment step as a rule: of them, only more than that counts."""
    share = e.update_share
    if e.is_on_policy or not e.choices or share < 0.5:
        return None
    per_call, per_step = e.updates / e.choices, e.updates / e.env_steps if e.env_steps else 0.0
    if per_call < 3 or 0 < per_step < FEW_UPDATES or (e.is_off_policy_actor_critic and per_step <= USUAL_UPDATES):
        return None
    times = 8.0 if per_call >= 8 else 4.0 if per_call >= 4 else 2.0
    if per_step > USUAL_UPDATES:  # to one per environment step
        times = float(min(2 ** round(math.log2(per_step)), MOST_TIMES))
    part = 1 - 1 / times
    evidence = (
        f"{per_call:.3g} updates after each choice of actions, {per_step:.2g} per environment step; they take "
        f"{units.share(share)} of the time. Each transition is used {per_step * e.minibatch:.0f} times."
    )
    saved = Saved(share * part, 0.0, 1.0).narrowed()
    return Suspicion(stages.UPDATE, (evidence,), saved, parameters={"per_call": per_call, "times": times})


def fewer_updates(c: Context, f: Finding) -> list[Intervention]:
    """By a flag, by the loop around the update, or by a number in the code: the experiment shows which one it was."""
    times = int(f.parameters.get("times", 4))
    title = f"{times} times fewer updates"
    knob = find(c.knobs, r"updates?_per|gradient_steps|utd|replay_ratio|num_updates|train_iters")
    if knob and (knob.default or "").isdecimal():
        old = int(knob.default or 1)
        new = max(1, old // times)
        return [replace(turned(knob, new, str(old)), updates=new / old)]
    found: dict[tuple[str, tuple[Edit, ...]], Intervention] = {}
    for file, code in c.codes.items():
        for line in _learning_lines(c.evidence, file):
            if edits := rewrite.fewer_rounds(code, line, times):
                where = f"{title} ({file}:{edits[0].first})" if found else title
                found.setdefault((file, tuple(edits)), edited_file(where, file, edits, changes_learning=True))
    fewer = lambda old: f"max(1, {old} // {times})"  # noqa: E731
    per_call = f.parameters.get("per_call", 0.0)
    numbers = c.edited_all(
        f"{title} by a number in the code" if found else title,
        lambda code: rewrite.number(code, r"gradient_steps|updates_per", per_call, fewer),
        changes_learning=True,
    )
    return [replace(intervention, updates=1 / times) for intervention in [*found.values(), *numbers][:MOST_LOOPS]]


def _learning_lines(e: Evidence, file: str) -> list[int]:
    """Lines of a file that learning passes through and environments do not, the innermost first."""

    def depths(test: Callable[[StackSample], bool]) -> dict[int, int]:
        deepest: dict[int, int] = {}
        for stack in e.stack_samples:
            if test(stack):
                for depth, frame in enumerate(stack.frames):
                    if frame.user and frame.file == file:
                        deepest[frame.line] = max(deepest.get(frame.line, 0), depth)
        return deepest

    learning = depths(lambda stack: stack.stage.startswith((stages.UPDATE, stages.SAMPLE)))
    collecting = depths(lambda stack: stack.stage.startswith(stages.COLLECT))
    return sorted((line for line in learning if line not in collecting), key=lambda line: -learning[line])


UTD = Cause(
    id="utd-high",
    title="there are very many gradient steps for each step of experience",
    fix="fewer updates per step, with larger batches",
    rule=utd,
    confirm="fewer updates",
    remedies=fewer_updates,
    sources=("MyoHub/myosuite#296", "S3"),
    changes_learning=True,
    explains=("tiny-minibatch", "oversized-net"),
)


def oversized(e: Evidence) -> Suspicion | None:
    """A layer of 512 units or more, twelve times wider than its inputs, with learning bound by arithmetic."""
    wide = [net for net in e.nets if _is_wide(net)]
    share, compute = e.network_share, e.compute_share()
    parts = _narrower_parts(e)
    saved = Saved(0.8 * share, 0.4 * share, 0.97 * share) if parts is None else curves.saved(parts)
    is_overhead = compute is not None and compute < 0.1 if parts is None else saved.value < 0.1
    if not wide or share < 0.3 or is_overhead:
        return None
    net = max(wide, key=lambda net: net.parameters)
    arithmetic = f", {units.share(compute)} of an update's time is arithmetic." if compute is not None else "."
    evidence = (
        f"{net.parameters:,} parameters, {net.widest} units wide, for {net.inputs} inputs; learning and acting take "
        f"{units.share(share)} of the time{arithmetic}"
    )
    return Suspicion(LOSS, (evidence,), saved)


def _narrower_parts(e: Evidence) -> list[Part] | None:
    """The stages of learning and acting with the narrowest network that was measured."""
    learning, acting = e.curves.smallest(Change.LEARNING_WIDTH), e.curves.smallest(Change.ACTING_WIDTH)
    if learning is None:
        return None
    factor = learning[1]
    parts = [
        *e.changed(factor, BACKWARD),
        *e.changed(factor.softened(), OPTIMIZER, TARGET),  # fewer numbers in as many tensors
        *e.changed(factor.mixed(e.curves.part(Change.LEARNING_WIDTH), SAME), LOSS),
    ]
    if acting is not None:
        parts += e.changed(acting[1].mixed(e.curves.part(Change.ACTING_WIDTH), SAME), ACT)
    return parts


def _is_wide(net: Net) -> bool:
    return bool(net.inputs) and (net.widest or 0) >= WIDE and (net.widest or 0) > WIDER * (net.inputs or 0)


def narrower(c: Context, f: Finding) -> list[Intervention]:
    widest = max((net.widest for net in c.evidence.nets if net.widest), default=0)
    if not widest:
        return []
    new = max(64, widest // 8)
    if c.evidence.is_system:
        layers = [min(units, new) for units in c.evidence.config.get("hidden", [])]
        return [config(f"layers of {layers} units", changes_learning=True, hidden=layers)] if layers else []
    return c.scaled(r"hidden|width|units|net_arch|dim", widest, new)


OVERSIZED = Cause(
    id="oversized-net",
    title="the network is far wider than its task needs",
    fix="a narrower network",
    rule=oversized,
    confirm="an eighth of the width",
    remedies=narrower,
    sources=("S0",),
    changes_learning=True,
)

CAUSES = (TINY_MINIBATCH, UTD, OVERSIZED)
