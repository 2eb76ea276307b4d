"""Rules about learning: losses, gradients, optimizers, compilers."""

import ast
import re

from hotlap.causes.evidence import Evidence, Frame, Look
from hotlap.core import stages, units
from hotlap.core.counts import COMPILED_GRAPHS
from hotlap.core.paths import ACT, BACKWARD, LOSS, OPTIMIZER
from hotlap.record.finding import Finding, Saved

TARGET = f"{stages.UPDATE}/{stages.TARGET}"
GOOD_BATCH = 256  # rows from which calling an operation of a small network costs little beside computing it
WIDE = 512  # units from which a layer is called wide


def anomaly(e: Evidence) -> Finding | None:
    """torch says that anomaly detection is on."""
    share = e.share(stages.UPDATE) + e.own_share(ACT)
    if not e.torch.get("anomaly") or not share:
        return None
    said = (f"Autograd's anomaly detection is on; learning and acting take {units.share(share)} of the time.",)
    learning = e.share(stages.UPDATE)
    return Finding("anomaly-on", BACKWARD, said, Saved(0.5 * learning, 0.2 * learning, 0.8 * share))


def recompile(e: Evidence) -> Finding | None:
    """Graphs are compiled after warm-up, and samples lie in the compiler."""
    graphs = e.count(COMPILED_GRAPHS)
    compiling = lambda look: any("torch/_dynamo" in f.file or "torch/_inductor" in f.file for f in look.frames)  # noqa: E731
    share = e.time_in(compiling)
    if graphs < 3 or share < 0.05:
        return None
    said = (f"{graphs:.0f} graphs were compiled after warm-up; compiling took {units.share(share)} of the time.",)
    return Finding("recompile-churn", LOSS, said, e.seen(share, 0.8, 1.0), e.where(compiling))


def compile_unamortized(e: Evidence) -> Finding | None:
    """Graphs were made before the steady part, and took longer than all that was measured."""
    early = [line.sample for line in e.run.lines if line.phase == "warmup"]
    graphs = sum(s.counts.get(COMPILED_GRAPHS, 0.0) for s in early)
    lost = sum(s.wall for s in early) * 1e-9
    if not graphs or e.count(COMPILED_GRAPHS) or lost < 10 or lost < 0.5 * e.wall:
        return None
    said = (f"{graphs:.0f} graphs were compiled in the first {units.seconds(lost)}; they must save that much before it pays.",)
    return Finding("compile-unamortized", LOSS, said)


def rnn_loop(e: Evidence) -> Finding | None:
    """Samples in recurrent layers that a loop of the user's own calls step by step, while learning."""

    def stepping(look: Look) -> bool:
        if not look.stage.startswith((stages.UPDATE, stages.SAMPLE)):
            return False
        recurrent = any(frame.file.endswith("modules/rnn.py") for frame in look.frames)
        return recurrent and any(frame.own and _loop_over_time(e, frame) for frame in look.frames)

    share = e.time_in(stepping)
    if share < 0.05:
        return None
    backward = e.own_share(BACKWARD) * min(1.0, share / max(e.own_share(LOSS), 1e-9))
    whole = share + backward
    said = (
        f"A recurrent layer called step by step took {units.share(share)} of the time, its gradients {units.share(backward)}.",
    )
    saved = e.seen(whole, 0.5, 0.97, 0.8)
    return Finding("rnn-seq-loop", LOSS, said, saved, e.where(stepping))


def _loop_over_time(e: Evidence, frame: Frame) -> bool:
    """Whether the line that calls the layer is repeated by a loop over single time steps: x[:, t], or x[None] of each x."""
    for loop in e.loops(frame)[-1:]:
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
            name, text = loop.target.id, ast.unparse(loop)
            selected = any(isinstance(node, ast.Subscript) and _selects(node.slice, name) for node in ast.walk(loop))
            if ("range(" in ast.unparse(loop.iter) and selected) or f"{name}[None]" in text or f"{name}.unsqueeze(" in text:
                return True
    return False


def _selects(index: ast.expr, name: str) -> bool:
    """x[t] or x[:, t]: one element, not a slice."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)


def param_loops(e: Evidence) -> Finding | None:
    """Samples in loops over parameters; optimizers that step through tensors one by one."""

    def looping(look: Look) -> bool:
        return any(frame.own and any(_over_parameters(loop) for loop in e.loops(frame)) for frame in look.frames)

    share = e.time_in(looping)
    slow = [o for o in e.facts.get("optimizers", []) if o.get("foreach") is False and not o.get("fused") and o["tensors"] > 4]
    plain = e.own_share(OPTIMIZER) if slow else 0.0
    if share + 0.5 * plain < 0.05:
        return None
    said = []
    if share:
        said.append(f"Loops over parameters took {units.share(share)} of the time.")
    if slow:
        said.append(f"{slow[0]['name']} steps through {slow[0]['tensors']} tensors one by one ({units.share(plain)}).")
    found = e.seen(share, 0.5, 0.95, 0.75)
    saved = Saved(found.value + 0.5 * plain, found.low + 0.2 * plain, found.high + 0.7 * plain)
    return Finding("per-param-loops", TARGET, tuple(said), saved, e.where(looping))


def _over_parameters(loop: object) -> bool:
    return isinstance(loop, ast.For) and bool(
        re.search(r"\.parameters\(\)|\.named_parameters\(\)|state_dict\(\)|param_groups|\bparams\b", ast.unparse(loop.iter))
    )


def float64(e: Evidence) -> Finding | None:
    """Networks hold or are given doubles."""
    nets = [net for net in e.facts.get("nets", []) if net["dtype"] == "float64"]
    doubled = {what: kind for what, kind in e.doc["types"].items() if kind == "float64" and what == "forward input"}
    if not nets and not doubled:
        return None
    share = e.share(stages.UPDATE) + e.own_share(ACT)
    what = "Networks compute" if nets else "Networks are given numbers"
    said = (f"{what} in float64; learning and acting take {units.share(share)} of the time.",)
    saved = Saved(share * 0.4, share * 0.02, share * 0.6)  # twice the bytes, half the numbers per instruction
    return Finding("float64-data", LOSS, said, saved) if saved.value > 0.02 else None


def tiny_minibatch(e: Evidence) -> Finding | None:
    """Minibatches below 150 rows, whose updates take most of the time, of which arithmetic needs little."""
    batch, share = e.minibatch, e.update_share
    if not e.is_on_policy or not 0 < batch < 0.6 * GOOD_BATCH or share < 0.25 or not e.env_steps:
        return None
    compute = e.compute_share()
    overhead = 0.9 if compute is None else max(0.0, 1 - compute)
    times = min(GOOD_BATCH / batch, 16.0)
    part = overhead * (1 - 1 / times)
    most = share * part
    saved = Saved(most * 0.95, most * 0.5, most + 0.15 * (1 - most))
    if saved.value < 0.1 or overhead < 0.4:
        return None
    each = e.share(stages.UPDATE) * e.wall / e.updates
    arithmetic = f"; its arithmetic needs {units.share(compute)} of that" if compute is not None else ""
    said = (
        f"{e.updates / e.env_steps:.2g} updates per environment step, on {batch:.0f} rows each, take {units.share(share)}.",
        f"One update takes {units.seconds(each)}{arithmetic}: overhead, not the network ({e.parameters:,} parameters).",
    )
    return Finding("tiny-minibatch", LOSS, said, saved, numbers={"minibatch": batch, "times": times})


def utd(e: Evidence) -> Finding | None:
    """Three updates or more after each choice of actions, off-policy, and they take most of the time."""
    share = e.update_share
    if e.is_on_policy or not e.act_calls or share < 0.5:
        return None
    per_call, per_step = e.updates / e.act_calls, e.updates / e.env_steps if e.env_steps else 0.0
    if per_call < 3:
        return None
    times = 8.0 if per_call >= 8 else 4.0 if per_call >= 4 else 2.0
    part = 1 - 1 / times
    said = (
        f"{per_call:.3g} updates after each choice of actions, {per_step:.2g} per environment step; they take "
        f"{units.share(share)} of the time. Each transition is used {per_step * e.minibatch:.0f} times.",
    )
    saved = Saved(share * part, share * 0.6, share * min(part * 1.08, 1.0))
    return Finding("utd-high", stages.UPDATE, said, saved, numbers={"per_call": per_call, "times": times})


def oversized(e: Evidence) -> Finding | None:
    """A layer of 512 units or more, four times wider than its inputs, with learning bound by arithmetic."""
    nets = [
        net
        for net in e.facts.get("nets", [])
        if (net["widest"] or 0) >= WIDE and net["inputs"] and net["widest"] > 4 * max(net["inputs"], 32)
    ]
    if not nets:
        return None
    share = e.share(stages.UPDATE) + e.own_share(ACT)
    compute = e.compute_share()
    if share < 0.3 or (compute is not None and compute < 0.1):
        return None
    net = max(nets, key=lambda net: net["parameters"])
    said = (
        f"{net['parameters']:,} parameters, {net['widest']} units wide, for {net['inputs']} inputs; learning and acting take "
        f"{units.share(share)} of the time"
        + (f", {units.share(compute)} of an update's time is arithmetic." if compute is not None else "."),
    )
    return Finding("oversized-net", LOSS, said, Saved(0.8 * share, 0.4 * share, 0.97 * share))
