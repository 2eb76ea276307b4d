"""What a report is made of: tables, notes and plots, and the few of them that every kind of report has.

One file per kind of report (`profile.py`, `comparison.py`, ...) chooses, orders and words the numbers of a noun as sections;
renderers (`terminal.py`, `markdown.py`, `html.py`, ...) show sections and compute nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotlap.core import units
from hotlap.core.text import printable
from hotlap.record.machine import Machine, PythonChoice
from hotlap.record.profile import GrowthCause, GrowthReason, GrowthRow
from hotlap.record.run import Run

PYTHON_CHOICES = {
    PythonChoice.FLAG: "by --python",
    PythonChoice.VIRTUAL_ENV: "the active virtual environment",
    PythonChoice.CONDA: "the active conda environment",
    PythonChoice.PATH: "on the PATH",
    PythonChoice.OWN: "hotlap's own",
}
SCRATCH = {
    "auto": "in a scratch",
    "overlay": "in an overlay: what it wrote is gone",
    "copy": "in a copy of the project: what it wrote is gone",
    "in-place": "in place: what it wrote is still there",
}
CONTAINMENT = {
    "pid namespace": "the kernel, with its pid namespace",
    "subreaper": "hotlap's supervisor, a subreaper",
    "process group": "a signal to its process group",
}


@dataclass(frozen=True)
class Bar:
    """A length from 0 to 1."""

    value: float

    @property
    def length(self) -> float:
        return min(max(self.value, 0.0), 1.0) if self.value == self.value else 0.0


Cell = str | Bar
Cells = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]  # a leading ">" aligns a column right
    rows: list[Cells]
    note: str = ""
    crop: bool = False  # where the page is narrow, cut the last column rather than fold it


@dataclass(frozen=True)
class Notes:
    """Lines that the reader must not miss: warnings, or the result itself."""

    lines: Sequence[str]
    kind: str = "warning"  # or "result"


@dataclass(frozen=True)
class Plot:
    """A figure, for renderers that can draw: kind is "area", "lines", "dots" or "icicle"."""

    title: str
    kind: str
    x_label: str = ""
    y_label: str = ""
    x: Sequence[float] = ()
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)  # icicle: path -> parent path
    labels: dict[str, str] = field(default_factory=dict)  # icicle: path -> its value in words
    log: bool = False  # lines: both axes by powers
    bands: dict[str, tuple[float, float, float]] = field(default_factory=dict)  # dots: series -> estimate, low, high


Section = Table | Notes | Plot


@dataclass(frozen=True)
class Report:
    """What a renderer gets: the sections, the noun that they were made of, and the run, where there is one."""

    title: str
    sections: Sequence[Section]
    noun: Any  # a frozen dataclass: `codec.to_json(noun)` is the document of `--json`
    run: Run | None = None


def clean(text: str) -> str:
    """Text on one line, without what would steer a terminal. Names, code and messages come from records of unknown origin."""
    return printable(text).replace("\n", " ").replace("\t", "    ")


def stage_name(path: str, depth: int | None = None) -> str:
    """The last part of a stage's path, indented by its depth in the tree."""
    return "  " * (path.count("/") if depth is None else depth) + path.rpartition("/")[2]


def plain(name: str) -> str:
    """The name of a count, in words: env_steps -> env steps."""
    return name.replace("_", " ")


def singular(name: str) -> str:
    return plain(name).removesuffix("s")


def machine_rows(machine: Machine) -> list[Cells]:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return [
        ("machine", f"{machine.cpu}, {machine.usable_cores:g} of {machine.cores} cores usable"),
        ("software", f"Python {machine.python}{_which_python(machine)}, {versions}"),
    ]


def _which_python(machine: Machine) -> str:
    """Of a script: the path of the Python that ran it, and why it was that one."""
    if not machine.python_path:
        return ""
    why = PYTHON_CHOICES.get(machine.python_choice) if machine.python_choice else None
    return f" ({clean(machine.python_path)}{f', {why}' if why else ''})"


def containment_rows(scratch: str | None, containment: str | None) -> list[Cells]:
    """Where a script ran, and what keeps its processes from outliving hotlap."""
    rows = [("ran", SCRATCH.get(scratch or "", scratch)), ("ended by", CONTAINMENT.get(containment or "", containment))]
    return [(label, value) for label, value in rows if value]


def growth_table(rows: Sequence[GrowthRow], why: Sequence[GrowthReason] = (), title: str = "") -> Table:
    """Exponents of time against steps, updates and episodes."""
    cells: list[Cells] = []
    for row in rows:
        low, high = row.ci95
        grows = "more than linear" if row.superlinear else "linear" if row.exponent > 0.85 else "less than linear"
        cells.append((f"with {plain(row.work)}", f"{row.exponent:.2f}", f"{low:.2f}-{high:.2f}", grows))
    note = " ".join(map(growth_sentence, why))
    return Table(title or "How time grows with the work done", ("", ">exponent", ">95%", ""), cells, note)


def growth_sentence(reason: GrowthReason) -> str:
    """Why time grows faster than the work, in a sentence."""
    if reason.cause is GrowthCause.LONGER_EPISODES:
        return (
            f"Episodes got longer: {reason.before:.0f} steps at the start, {reason.after:.0f} at the end. "
            "Time per episode grows with them; this is not a slowdown."
        )
    if reason.cause is GrowthCause.LEARNING_BEGAN:
        return f"Learning began mid-run: {reason.before:.3g} updates per env step at the start, {reason.after:.3g} at the end."
    times = f"{reason.after / reason.before:.1f} times what it did" if reason.before else units.seconds(reason.after)
    how_much = f"{reason.factor:.1f}x" if reason.factor else "from nothing"
    return f"A step itself costs {times}; the stage that grew most is {reason.stage} ({how_much})."
