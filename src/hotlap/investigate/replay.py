"""The gain of a rewrite before its experiment: calls of the very function, recorded in the script and replayed against it.

Only rewrites of one function that can be told by its name are replayed; what is inlined into the training loop cannot be.
"""

import ast
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hotlap.causes.evidence import Evidence
from hotlap.core.errors import RecordError, TargetFailed
from hotlap.experiment.learning import run_curve
from hotlap.interventions import replaying, rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.edit import apply, edits_between
from hotlap.interventions.intervention import Intervention, patched, together
from hotlap.investigate.sources import Sources
from hotlap.launch.scratch import ScratchKind
from hotlap.record import codec
from hotlap.record.finding import Finding, Projection
from hotlap.record.hypothesis import Replay
from hotlap.target.target import Variant
from hotlap.target.variant import with_intervention


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a file and the methods of its classes, by their names: "f", "Class.f"."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, ast.FunctionDef))


def changed_function(blamed: ast.AST | None, before: str, after: str) -> tuple[str, ast.FunctionDef] | None:
    """Which function a rewrite changes, and where it was; None if that is not clear. `blamed` is the one of a finding."""
    old, new = dict(functions(Code(before).tree)), dict(functions(Code(after).tree))
    changed = {name: node for name, node in old.items() if name in new and ast.dump(new[name]) != ast.dump(node)}
    if len(changed) > 1:  # with its helpers
        changed = {name: node for name, node in changed.items() if node.name == getattr(blamed, "name", "")}
    return next(iter(changed.items())) if len(changed) == 1 else None


def replay(
    variant: Variant,
    finding: Finding,
    intervention: Intervention,
    accepted: Sequence[Intervention],
    sources: Sources,
    evidence: Evidence,
    folder: Path,
    seconds: float,
    scratch: ScratchKind | str,
    rerun: bool,
) -> Replay | None:
    """Record calls of the function that an intervention rewrites, and replay them; None if it is no such rewrite."""
    file, _, line = (finding.where or "").rpartition(":")
    if intervention.upper_bound or list(intervention.edits) != [file] or not line.isdecimal():
        return None
    before = patched(together(accepted), sources.texts).get(file, sources.texts[file])
    after = patched(together([*accepted, intervention]), sources.texts)[file]
    blamed = evidence.codes[file].function(int(line)) if file in evidence.codes else None
    if (found := changed_function(blamed, before, after)) is None:
        return None
    name, node = found
    decorated = apply(before, rewrite.replayed(Code(before), node.body[0].lineno))
    if decorated == before:
        return None
    order = folder / "order.json"
    folder.mkdir(parents=True, exist_ok=True)
    order.write_text(json.dumps({"name": name, "before": before, "after": after}))
    edits = together(accepted).edits | {file: tuple(edits_between(sources.texts[file], decorated))}
    recording = Intervention("calls recorded", edits=edits, new_files=together([*accepted, intervention]).new_files)
    recorded = with_intervention(variant, recording, sources.texts, sources.paths, folder, "recorded")
    recorded = replace(recorded, environment={**recorded.environment, replaying.VARIABLE: str(order.resolve())})
    with suppress(TargetFailed):  # without a replay, the experiment will tell
        run_curve(recorded, folder, "calls", 0, seconds=seconds, episodes=False, scratch=scratch, rerun=rerun)
    return _read(order.with_suffix(".result"), name)


def _read(path: Path, name: str) -> Replay:
    if not path.exists():
        return Replay(name, problem="it was not called often enough")
    try:
        return replace(codec.from_json(Replay, codec.read(path), path), function=name)
    except RecordError:
        return Replay(name, problem="its replay could not be read")


def projected(replayed: Replay, finding: Finding, evidence: Evidence) -> Projection:
    """The projection by the share of the time in which the function was on the stack, and what its rewrite takes of that."""
    if not replayed.before or replayed.after is None:
        return finding.projected
    file = (finding.where or "").rpartition(":")[0]
    last = replayed.function.rpartition(".")[2]
    share = evidence.time_in(lambda stack: any((frame.file, frame.name) == (file, last) for frame in stack.frames))
    part = max(0.0, 1 - replayed.after / replayed.before)
    return evidence.seen(share, 0.9 * part, part, part).projection()
