"""What `--apply` writes: a unified diff, an environment file, the arguments to add, a preset; whatever there is to write."""

import json
import os

from hotlap.interventions.edit import apply, diff
from hotlap.interventions.intervention import together
from hotlap.investigate.sources import Sources
from hotlap.record.investigation import InvestigationState, LearningVerdict

PATCH, ENVIRONMENT, ARGUMENTS, PRESET, BY_HAND = (
    "hotlap.patch",
    "hotlap.env",
    "hotlap.arguments",
    "preset.json",
    "hotlap.todo",
)


def files_of(state: InvestigationState, sources: Sources, allow_learning: bool) -> dict[str, str]:
    """File names and their contents. Nothing, if what was thought to leave learning alone does not."""
    losses = state.learning.losses if state.learning else None
    if losses and losses.verdict is not LearningVerdict.SAME_LOSSES and not allow_learning:
        return {}
    accepted = [h.intervention for h in state.hypotheses if h.accepted and h.intervention]
    chosen = [i for i in accepted if allow_learning or not i.changes_learning]
    combined = together(i for i in chosen if i.is_patch)
    files: dict[str, str] = {}
    if by_hand := [f"{i.title}\n" for i in chosen if not i.is_patch]:
        files[BY_HAND] = "Measured and accepted, and yours to write:\n" + "".join(by_hand)
    names = {file: os.path.relpath(sources.paths[file]) for file in combined.edits}
    texts = sources.texts
    patch = "".join(diff(names[file], texts[file], apply(texts[file], edits)) for file, edits in combined.edits.items())
    if patch:
        files[PATCH] = patch
    if combined.environment:
        files[ENVIRONMENT] = "".join(f"export {name}={value}\n" for name, value in combined.environment.items())
    if combined.arguments:
        files[ARGUMENTS] = " ".join(combined.arguments) + "\n"
    if combined.config:
        files[PRESET] = json.dumps(combined.config, indent=2) + "\n"
    return files
