"""What remedies are made of: the target's code and knobs, and the changes that experiments try on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hotlap.causes.evidence import Evidence
from hotlap.interventions import drop_ins, rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.intervention import Intervention, RuntimeChange
from hotlap.interventions.knobs import Knob, find
from hotlap.record.finding import Finding


@dataclass(frozen=True)
class Context:
    """What is known about the target."""

    evidence: Evidence
    codes: Mapping[str, Code]  # the files as they are now
    knobs: Sequence[Knob]

    def edited(
        self,
        finding: Finding,
        title: str,
        edit: Callable[[Code, int], Edits],
        upper_bound: bool = False,
        changes_learning: bool = False,
        drop_in: str | None = None,
    ) -> list[Intervention]:
        """An edit of the line that a finding blames; nothing if it does not fit. `drop_in` is the file that it imports."""
        file, line = _place(finding)
        if file not in self.codes or not (edits := edit(self.codes[file], line)):
            return []
        intervention = edited_file(title, file, edits, changes_learning, upper_bound)
        return [replace(intervention, new_files=drop_ins.files(drop_in)) if drop_in else intervention]

    def edited_all(
        self, title: str, edit: Callable[[Code], Edits], changes_learning: bool = False, upper_bound: bool = False
    ) -> list[Intervention]:
        """An edit wherever it fits."""
        edits = {file: tuple(changed) for file, code in self.codes.items() if (changed := edit(code))}
        return [Intervention(title, edits=edits, changes_learning=changes_learning, upper_bound=upper_bound)] if edits else []

    def scaled(self, name: str, value: float, new: int) -> list[Intervention]:
        """A number of the recipe: by its flag, or where the code has it."""
        if (knob := find(self.knobs, name)) is not None:
            return [turned(knob, new, knob.default or f"{value:g}")]
        return self.edited_all(
            f"{value:g} becomes {new}",
            lambda code: rewrite.number(code, name, value, lambda _: str(new)),
            changes_learning=True,
        )

    def divided(self, name: str, times: int, title: str, upper_bound: bool = False) -> list[Intervention]:
        """A hyperparameter divided by `times`: by its flag, or where the code sets it."""
        knob = find(self.knobs, name)
        if knob is not None and (knob.default or "").isdecimal():
            new = max(1, int(knob.default or 1) // times)
            return [turned(knob, new, knob.default or "", upper_bound)]
        smaller = lambda old: f"max(1, int({old}) // {times})"  # noqa: E731
        return self.edited_all(title, lambda code: rewrite.number(code, name, None, smaller), True, upper_bound)

    def function(self, finding: Finding) -> str:
        """The function around the line that a finding blames, as a title names it."""
        file, line = _place(finding)
        function = self.codes[file].function(line) if file in self.codes else None
        return f"{function.name}()" if function else "it"


def _place(finding: Finding) -> tuple[str, int]:
    file, _, line = (finding.where or "").rpartition(":")
    return file, int(line) if line.isdecimal() else 0


def edited_file(title: str, file: str, edits: Edits, changes_learning: bool = False, upper_bound: bool = False) -> Intervention:
    """Edits of one file."""
    return Intervention(title, edits={file: tuple(edits)}, changes_learning=changes_learning, upper_bound=upper_bound)


def turned(knob: Knob, new: int, old: str, upper_bound: bool = False) -> Intervention:
    """A flag, or a field of a system's config, set to another number: it can change what is learned."""
    return Intervention(f"{knob.flag} {new} instead of {old}", changes_learning=True, upper_bound=upper_bound, **knob.set(new))


def switch(title: str, name: str, upper_bound: bool = False, changes_learning: bool = False, **options: object) -> Intervention:
    """A change that is made while the script runs: its name in `interventions.CHANGES`."""
    return Intervention(title, (RuntimeChange(name, options),), upper_bound=upper_bound, changes_learning=changes_learning)


def config(title: str, changes_learning: bool = False, **fields: object) -> Intervention:
    """Other values in the config of a system."""
    return Intervention(title, config=fields, changes_learning=changes_learning)


def environment(title: str, **variables: str) -> Intervention:
    """Environment variables that the script is started with."""
    return Intervention(title, environment=variables)


# -- remedies of several causes --


def recorded(context: Context, finding: Finding) -> list[Intervention]:
    """The blamed function costs nothing: the upper bound of what fixing it gives."""
    title = f"{context.function(finding)} returns recorded results"
    return context.edited(finding, title, rewrite.recorded, upper_bound=True)


def skipped_loop(context: Context, finding: Finding) -> list[Intervention]:
    """The blamed loop costs nothing: the upper bound of what fixing it gives."""
    return context.edited(finding, "the loop skipped", rewrite.skipped_loop, upper_bound=True)
