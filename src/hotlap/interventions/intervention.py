"""An intervention as it is planned, listed, tried and written down."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hotlap.experiment.interleave import Side
from hotlap.interventions import variable
from hotlap.interventions.edit import Edit, apply


@dataclass(frozen=True)
class Intervention:
    """A change to a target. It may change what is done while the script runs, its flags, its environment, or its text."""

    title: str
    changes: tuple[tuple[str, dict[str, Any]], ...] = ()  # names and options: see hotlap.interventions.CHANGES
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    edits: dict[str, tuple[Edit, ...]] = field(default_factory=dict)  # file -> edits
    config: dict[str, Any] = field(default_factory=dict)  # of a system
    learning: bool = False  # whether what is learned can change
    bound: bool = False  # whether it only shows what a fix could give at most

    @property
    def is_patch(self) -> bool:
        """Whether the user can have it as a change of the text, of flags, of the environment or of a preset."""
        return not self.bound and not self.changes

    @property
    def change_names(self) -> list[str]:
        """The changes that it makes while the script runs."""
        return [*(name for name, _ in self.changes), *(["source"] if self.edits else [])]

    def facts(self) -> dict[str, Any]:
        """What a record says of it."""
        kinds = [name for name, _ in self.changes]
        return {
            "title": self.title,
            "changes": kinds,
            "arguments": list(self.arguments),
            "environment": self.environment,
            "files": {file: [[e.first, e.last, list(e.lines)] for e in edits] for file, edits in self.edits.items()},
            "options": [dict(options) for _, options in self.changes],
            "config": self.config,
            "changes_learning": self.learning,
            "bound": self.bound,
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Intervention":
        return cls(
            facts["title"],
            tuple((name, dict(options)) for name, options in zip(facts["changes"], facts["options"], strict=True)),
            tuple(facts["arguments"]),
            dict(facts["environment"]),
            {file: tuple(Edit(a, b, tuple(c)) for a, b, c in edits) for file, edits in facts["files"].items()},
            dict(facts["config"]),
            facts["changes_learning"],
            facts["bound"],
        )


def together(interventions: Iterable[Intervention]) -> Intervention:
    """Several as one."""
    whole = Intervention("as it is")
    for one in interventions:
        edits = {file: (*whole.edits.get(file, ()), *one.edits.get(file, ())) for file in {**whole.edits, **one.edits}}
        whole = Intervention(
            one.title if whole.title == "as it is" else f"{whole.title} + {one.title}",
            (*whole.changes, *one.changes),
            (*whole.arguments, *one.arguments),
            {**whole.environment, **one.environment},
            edits,
            {**whole.config, **one.config},
            whole.learning or one.learning,
            whole.bound or one.bound,
        )
    return whole


def patched(intervention: Intervention, texts: Mapping[str, str]) -> dict[str, str]:
    """The files that it edits, as they would be."""
    return {file: apply(texts[file], edits) for file, edits in intervention.edits.items()}


def side_of(
    base: Side, intervention: Intervention, texts: Mapping[str, str], paths: Mapping[str, str], folder: Path, name: str
) -> Side:
    """The target with an intervention made. `texts` are the user's files, `paths` where they lie; `folder` gets new ones."""
    files = {os.path.relpath(paths[file]): text for file, text in patched(intervention, texts).items()}
    changes = [*intervention.changes]
    if files:
        content = json.dumps(files, indent=1)
        place = folder / f"text-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        changes.append(("source", {"texts_in": str(place)}))
    return replace(
        base,
        name=name,
        arguments=(*base.arguments, *intervention.arguments),
        environment={**base.environment, **intervention.environment, **variable(changes)},
        config={**base.config, **intervention.config},
    )
