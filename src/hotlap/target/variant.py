"""A target with an intervention made: its flags, its environment, its config, and the texts of its files."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hotlap.interventions import variable
from hotlap.interventions.intervention import Intervention, RuntimeChange, patched
from hotlap.target.target import Script, Variant


def with_intervention(
    base: Variant, intervention: Intervention, texts: Mapping[str, str], paths: Mapping[str, str], folder: Path, name: str
) -> Variant:
    """The variant with an intervention made. `texts` are the user's files, `paths` where they lie; `folder` gets new ones."""
    files = {os.path.relpath(paths[file]): text for file, text in patched(intervention, texts).items()}
    if isinstance(base.target, Script):
        files |= {os.path.relpath(base.target.folder / name): text for name, text in intervention.new_files.items()}
    changes = [*intervention.changes]
    if files:
        content = json.dumps(files, indent=1)
        place = folder / f"text-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        changes.append(RuntimeChange("source", {"texts_in": str(place.resolve())}))
    target = base.target
    if isinstance(target, Script):
        target = replace(target, arguments=(*target.arguments, *intervention.arguments))
    else:
        target = replace(target, config={**target.config, **intervention.config})
    environment = {**base.environment, **intervention.environment, **variable(changes)}
    return replace(base, name=name, target=target, environment=environment)
