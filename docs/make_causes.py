"""Writes docs/causes.md from the catalogue and the rules: `python docs/make_causes.py`."""

from pathlib import Path

from hotlap.causes import RULES
from hotlap.causes.catalogue import CAUSES

SEEDS = {
    "S0": "the guide on Hearts",
    "S1": "the guide on the Petri net",
    "S2": "the guide on MettaGrid",
    "S3": "the guide on Snake",
    "S4": "the guide on CAGE Challenge 2",
}
HEAD = """# Causes

Why training is slow: every cause that `hotlap diagnose` knows, the signs that its rule looks for, the experiment that
`hotlap investigate` would run, and the fix. Made by `python docs/make_causes.py` from `src/hotlap/diagnose`; a test holds this
page to it.

"May change" means that the fix can change what is learned: it is written only with `--allow-learning-changes`. Sources are
threads in which users met the cause.
"""


def page() -> str:
    parts = [HEAD]
    for name, cause in CAUSES.items():
        sources = ", ".join(SEEDS.get(source) or _link(source) for source in cause.sources)
        parts.append(
            f"## {name}\n\n{cause.title[0].upper()}{cause.title[1:]}.\n\n"
            f"- signs: {RULES[name].__doc__}\n"
            f"- experiment: {cause.confirm}\n"
            f"- fix: {cause.fix}\n"
            f"- learning: {'may change' if cause.learning else 'stays the same'}\n"
            f"- met in: {sources}\n"
        )
    return "\n".join(parts)


def _link(source: str) -> str:
    repository, _, number = source.partition("#")
    return f"[{source}](https://github.com/{repository}{f'/issues/{number}' if number else ''})"


if __name__ == "__main__":
    Path(__file__).with_name("causes.md").write_text(page())
