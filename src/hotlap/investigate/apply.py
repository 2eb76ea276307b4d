"""What `--apply` writes: a unified diff, an environment file, the arguments to add, a preset; or why it writes nothing."""

import json
import os
from pathlib import Path

from hotlap.core.words import Word
from hotlap.interventions.edit import apply, diff
from hotlap.interventions.intervention import Intervention, together
from hotlap.investigate.sources import Sources
from hotlap.record.investigation import InvestigationState, LearningVerdict
from hotlap.target.target import Script

PATCH, ENVIRONMENT, ARGUMENTS, PRESET, BY_HAND = (
    "hotlap.patch",
    "hotlap.env",
    "hotlap.arguments",
    "preset.json",
    "hotlap.todo",
)


class Withheld(Word):
    """Why something that was asked for is not written."""

    PLAN_ONLY = "plan-only"  # nothing was tried
    UNSAFE = "unsafe"  # the script may not be run again
    NOTHING_ACCEPTED = "nothing-accepted"
    OTHER_LOSSES = "other-losses"  # what was thought to leave learning alone does not
    CHANGES_LEARNING = "changes-learning"  # some of what was accepted can change what is learned


def withheld(state: InvestigationState, allow_learning: bool) -> Withheld | None:
    """Why not all that was accepted is written; None if it is."""
    accepted = _accepted(state)
    if not accepted:
        if state.unsafe:
            return Withheld.UNSAFE
        return Withheld.PLAN_ONLY if state.settings.dry else Withheld.NOTHING_ACCEPTED
    if allow_learning:
        return None
    if _has_other_losses(state):
        return Withheld.OTHER_LOSSES
    return Withheld.CHANGES_LEARNING if any(i.changes_learning for i in accepted) else None


def _accepted(state: InvestigationState) -> list[Intervention]:
    return [h.intervention for h in state.hypotheses if h.accepted and h.intervention]


def _has_other_losses(state: InvestigationState) -> bool:
    losses = state.learning.losses if state.learning else None
    return losses is not None and losses.verdict is not LearningVerdict.SAME_LOSSES


def files_of(state: InvestigationState, sources: Sources, allow_learning: bool) -> dict[str, str]:
    """File names and their contents. Nothing, if what was thought to leave learning alone does not."""
    if _has_other_losses(state) and not allow_learning:
        return {}
    chosen = [i for i in _accepted(state) if allow_learning or not i.changes_learning]
    combined = together(i for i in chosen if i.is_patch)
    files: dict[str, str] = {}
    if by_hand := [f"{i.title}\n" for i in chosen if not i.is_patch]:
        files[BY_HAND] = "Measured and accepted, and yours to write:\n" + "".join(by_hand)
    if patch := _patch(combined, sources):
        files[PATCH] = patch
    if combined.environment:
        files[ENVIRONMENT] = "".join(f"export {name}={value}\n" for name, value in combined.environment.items())
    if combined.arguments:
        files[ARGUMENTS] = " ".join(combined.arguments) + "\n"
    if combined.config:
        files[PRESET] = json.dumps(combined.config, indent=2) + "\n"
    return files


def _patch(intervention: Intervention, sources: Sources) -> str:
    """A diff, by paths as they are from here: of the files that are edited, and of those that are added beside the script."""
    texts = sources.texts
    parts = [
        diff(os.path.relpath(sources.paths[file]), texts[file], apply(texts[file], edits))
        for file, edits in intervention.edits.items()
    ]
    folder = sources.target.folder if isinstance(sources.target, Script) else Path()
    for name, text in intervention.new_files.items():
        path = folder / name
        before = path.read_text(encoding="utf-8") if path.is_file() else None
        parts.append(diff(os.path.relpath(path), before, text))
    return "".join(parts)
