"""Rules about what changes while a run goes on: leaks, and slowdowns that are none."""

import ast

import numpy as np

from hotlap.causes.evidence import Evidence
from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, UPDATES
from hotlap.core.paths import BACKWARD, RESET, STEP, WAIT
from hotlap.record.finding import Finding, Saved

GROWN = 1.25  # times its early cost, from which a stage has grown


def env_leak(e: Evidence) -> Finding | None:
    """Steps get slower with time, episodes do not get longer, and something is appended that reset does not clear."""
    grown = e.growth((STEP, RESET, WAIT))
    if grown < GROWN or _longer_episodes(e):
        return None
    place = _never_cleared(e)
    if not place and (e.memory_growth < 1_000_000 or grown < 1.5):
        return None
    share = e.own_share(STEP, RESET, WAIT)
    said = [f"A step of the environment takes {grown:.1f} times as long at the end of the run as at its start."]
    if place:
        said.append("Something is appended that reset does not clear.")
    early, late = 1 - 1 / grown, 1.0
    return Finding("env-state-leak", STEP, tuple(said), Saved(share * (early + late) / 2, share * early * 0.5, share), place)


def _longer_episodes(e: Evidence) -> bool:
    before, after = e.episode_lengths()
    return bool(before) and after > 1.25 * before


def _never_cleared(e: Evidence) -> str | None:
    """file:line of an attribute that an environment's methods append to and its reset does not set anew."""
    for name, code in e.codes.items():
        for node in code.walk(ast.ClassDef):
            assert isinstance(node, ast.ClassDef)
            methods = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef)}
            if not {"step", "reset"} <= methods.keys():
                continue
            reset = ast.unparse(methods["reset"])
            for method in methods.values():
                for part in ast.walk(method):
                    owner = _grows(part)
                    if owner is None or not owner.startswith("self.") or method.name == "__init__":
                        continue
                    bounded = f"{owner}.pop" in ast.unparse(node) or f"del {owner}" in ast.unparse(node)
                    cleared = any(f"{owner}{how}" in reset for how in (" = ", ".clear(", ": ")) and part not in ast.walk(
                        methods["reset"]
                    )
                    if not cleared and not bounded:
                        return f"{name}:{part.lineno}"  # type: ignore[attr-defined]
    return None


def _grows(node: ast.AST) -> str | None:
    """What a statement makes longer: `x.append(...)`, `x += ...`, `x = np.concatenate([x, ...])`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        longer = node.func.attr in ("append", "extend", "add", "update", "appendleft", "setdefault", "insert")
        return ast.unparse(node.func.value) if longer else None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.value, ast.List | ast.ListComp):
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
        target, made = ast.unparse(node.targets[0]), ast.unparse(node.value)
        joined = ast.unparse(node.value.func).rpartition(".")[2] in (
            "concatenate",
            "append",
            "vstack",
            "hstack",
            "cat",
            "stack",
            "concat",
        )
        return target if joined and target in made.partition("(")[2] else None
    return None


def graph_retention(e: Evidence) -> Finding | None:
    """Memory grows, updates get slower, or a loss is stored with its graph."""
    grown = e.growth((BACKWARD, f"{stages.UPDATE}/{stages.LOSS}"), UPDATES)
    kept = _kept_graph(e)
    leaking = e.memory_growth > 1_000_000
    if not (kept and (leaking or grown > GROWN)) and not (leaking and grown > 1.5):
        return None
    share = e.share(stages.UPDATE)
    grows = f"Memory grows by {units.size(max(e.memory_growth, 0.0))} per second"
    said = [f"{grows}; an update takes {grown:.1f} times as long as at first."]
    if kept:
        said.append("A tensor is stored with its graph.")
    gc_share = float(e.counters.get("gc_share") or 0.0)
    part = share * (1 - 1 / grown)
    return Finding(
        "graph-retention",
        BACKWARD,
        tuple(said),
        Saved(min(0.9, 0.5 * (part + share) * 0.7 + gc_share), 0.3 * part, min(0.95, share + gc_share)),
        kept,
    )


def _kept_graph(e: Evidence) -> str | None:
    """file:line where a loss or value is stored with its graph: appended or summed up, neither read nor detached."""
    for name, code in e.codes.items():
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
                return f"{name}:{node.lineno}"
    return None


def harder_states(e: Evidence) -> Finding | None:
    """Steps get slower with time, or slower and faster again, and nothing piles up."""
    grown, swings = e.growth((STEP, RESET, WAIT)), e.swing((STEP, RESET, WAIT))
    if (grown < GROWN and swings < 2) or e.own_share(STEP, RESET, WAIT) < 0.1:
        return None
    before, after = e.episode_lengths()
    if grown >= GROWN:
        said = [f"A step of the environment takes {grown:.1f} times as long at the end of the run as at its start."]
    else:
        said = [f"The cost of a step goes up and down by a factor of {swings:.1f} during the run: it follows the state."]
    if before and after > 1.1 * before:
        said.append(f"Episodes grew from {before:.0f} to {after:.0f} steps: the states are others.")
    said.append("Nothing piles up that reset would have to clear.")
    return Finding("harder-states", STEP, tuple(said))


def learning_starts(e: Evidence) -> Finding | None:
    """Before the first update, for seconds, steps were cheaper."""
    samples = [line.sample for line in e.run.lines if line.phase not in ("bare", "traced")]
    first = next((i for i, s in enumerate(samples) if s.counts.get(UPDATES)), None)
    if not first:
        return None
    before = [s for s in samples[:first] if s.counts.get(ENV_STEPS)]
    waited = sum(s.wall for s in before) * 1e-9
    if len(before) < 3 or waited < 2.0 or not e.samples:
        return None

    def rate(part: list[object]) -> float:
        rates = [s.counts.get(ENV_STEPS, 0) / s.wall * 1e9 for s in part]  # type: ignore[attr-defined]
        return float(np.median(rates)) if rates else 0.0

    early, late = rate(list(before)), rate(list(e.samples))
    if not late or early < 1.3 * late:
        return None
    said = (
        f"For the first {units.seconds(waited)} nothing was learned, at {units.count(early)} steps per second; since then "
        f"{units.count(late)}. That is what learning costs, no slowdown.",
    )
    return Finding("learning-starts", stages.UPDATE, said)


def store_spill(e: Evidence) -> Finding | None:
    """Ray says so."""
    spilled = any("Spilled" in note or "object store is full" in note for note in e.doc["warnings"])
    said = ("Ray says that its object store spills to disk.",)
    return Finding("store-spill", stages.COLLECT, said, Saved(0.1, 0.0, 0.5)) if spilled else None
