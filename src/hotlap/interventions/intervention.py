"""Interventions put together, and what they make of the user's files. The noun itself is the record's."""

from collections.abc import Iterable, Mapping

from hotlap.interventions.edit import Overlap, apply
from hotlap.interventions.rewrite.patch import is_python
from hotlap.record.intervention import Edit, Intervention, RuntimeChange

__all__ = ["AS_IS", "Edit", "Intervention", "RuntimeChange", "patched", "together"]

AS_IS = Intervention("as it is")


def together(interventions: Iterable[Intervention]) -> Intervention:
    """Several as one."""
    combined = AS_IS
    for added in interventions:
        files = {**combined.edits, **added.edits}
        combined = Intervention(
            added.title if combined is AS_IS else f"{combined.title} + {added.title}",
            (*combined.changes, *added.changes),
            (*combined.arguments, *added.arguments),
            {**combined.environment, **added.environment},
            {file: (*combined.edits.get(file, ()), *added.edits.get(file, ())) for file in files},
            {**combined.config, **added.config},
            combined.changes_learning or added.changes_learning,
            combined.upper_bound or added.upper_bound,
            {**combined.new_files, **added.new_files},
        )
    return combined


def patched(intervention: Intervention, texts: Mapping[str, str]) -> dict[str, str]:
    """The files that it edits, as they would be. Edits that make Python files unreadable together raise Overlap."""
    after = {file: apply(texts[file], edits) for file, edits in intervention.edits.items()}
    for file, text in after.items():
        if is_python(texts[file]) and not is_python(text):
            raise Overlap(f"the edits of {file} do not fit together")
    return after
