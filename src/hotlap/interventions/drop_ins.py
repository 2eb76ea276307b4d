"""Files of `hotlap.fast` that a patch carries with it: hotlap itself need not be in the user's interpreter."""

from pathlib import Path

import hotlap.fast


def module(name: str) -> str:
    """What a drop-in is imported as, beside the script."""
    return f"hotlap_{name}"


def files(name: str) -> dict[str, str]:
    """The file that a patch adds for a drop-in: its name and its text."""
    path = Path(hotlap.fast.__file__).with_name(f"{name}.py")
    return {f"{module(name)}.py": path.read_text(encoding="utf-8")}
