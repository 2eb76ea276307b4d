"""The user's files as they are on disk, by the names that profiles give them."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.causes.evidence import Evidence
from hotlap.core.errors import RecordError, UsageError
from hotlap.interventions.code import Code
from hotlap.record.run import load
from hotlap.target.target import Script, Target


@dataclass
class Sources:
    """Texts and paths, read from the profiles of an investigation's folder."""

    folder: Path
    target: Target
    texts: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def read(self) -> "Sources":
        """Add what the profiles made so far have seen. A file that changed since the first of them is refused."""
        for file in sorted(self.folder.glob("profile-*/run.json")):
            codes: dict[str, Code] = {}
            with suppress(RecordError):  # a profile that was cut off
                codes = Evidence(load(file.parent)).codes
            for name, code in codes.items():
                path = next((place for place in self._places(name) if place.is_file()), None)
                if path is None or name in self.texts:
                    continue
                with path.open(newline="") as text:  # line endings as they are
                    self.texts[name], self.paths[name] = text.read(), str(path.resolve())
                if file.parent.name == "profile-1" and self.texts[name].splitlines() != code.text.splitlines():
                    raise UsageError(f"{name} has changed since it was profiled: investigate it again")
        return self

    def codes(self) -> dict[str, Code]:
        """All of them, and the script itself, for rules that look at code."""
        codes = {name: Code(text) for name, text in self.texts.items()}
        if isinstance(self.target, Script) and not self.target.module:
            codes[self.target.name] = Code(Path(self.target.path).read_text(errors="replace"))
        return codes

    def _places(self, name: str) -> list[Path]:
        beside = self.target.folder if isinstance(self.target, Script) else Path()
        return [beside / name, beside / Path(name).name, Path(name)]
