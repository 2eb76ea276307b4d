"""Writes docs/causes.md from the entries in `hotlap.causes`: `python docs/make_causes.py`."""

from pathlib import Path

from hotlap.causes import BUILT_IN, Cause

SEEDS = {
    "S0": "the guide on Hearts",
    "S1": "the guide on the Petri net",
    "S2": "the guide on MettaGrid",
    "S3": "the guide on Snake",
    "S4": "the guide on CAGE Challenge 2",
}
HEAD = """# Causes

Why training is slow: every cause that `hotlap diagnose` knows, the signs that its rule looks for, the experiment that
`hotlap investigate` runs, and the fix. Made by `python docs/make_causes.py` from the entries in `src/hotlap/causes`; a test
holds this page to them.

"Advice only" means that hotlap has no experiment for the cause: it tells, and you try. "May change" means that the fix can
change what is learned: it is written only with `--allow-learning-changes`. Sources are threads in which users met the cause.

A package of yours can add causes by the entry point group `hotlap.causes`: each entry point gives a `hotlap.causes.Cause`,
or a tuple of them.
"""


def page() -> str:
    return "\n".join([HEAD, *(_entry(cause) for cause in BUILT_IN.values())])


def _entry(cause: Cause) -> str:
    sources = ", ".join(SEEDS.get(source) or _link(source) for source in cause.sources)
    learning = "may change" if cause.changes_learning else "stays the same"
    lines = [f"signs: {cause.rule.__doc__}"]
    if cause.no_fault:
        lines += ["no fault: it explains a change of speed", f"what to do: {cause.fix}"]
    else:
        lines += [f"experiment: {cause.confirm or 'none; advice only'}", f"fix: {cause.fix}", f"learning: {learning}"]
    lines.append(f"reported in: {sources}")
    return f"## {cause.id}\n\n{cause.title[0].upper()}{cause.title[1:]}.\n\n" + "".join(f"- {line}\n" for line in lines)


def _link(source: str) -> str:
    repository, _, number = source.partition("#")
    return f"[{source}](https://github.com/{repository}{f'/issues/{number}' if number else ''})"


if __name__ == "__main__":
    Path(__file__).with_name("causes.md").write_text(page())
