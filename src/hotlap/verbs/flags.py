"""Flags of the verbs. How words become flags is in `target/parsing.py`; here is what only a command line needs."""

from collections.abc import Sequence

from hotlap.target.parsing import is_script, parse, value_of, with_config

__all__ = ["is_script", "parse", "protected", "value_of", "with_config"]


def protected(argv: Sequence[str]) -> list[str]:
    """Words that look like flags and are values: `--vary --num-envs=1,2`, and targets such as "-m package.train --lr 1"."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] == "--vary":
            words[-1] = f"--vary={word}"
        else:
            words.append(f" {word}" if word.startswith("-m ") else word)
    return words
