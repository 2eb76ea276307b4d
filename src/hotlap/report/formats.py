"""The formats of reports: one list. Other packages add theirs by entry points of the group `hotlap.formats`.

    [project.entry-points."hotlap.formats"]
    csv = "my_package.report:CSV"

where `CSV = Renderer("csv", ".csv", as_csv)` and `as_csv(report: Report) -> str`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hotlap.core import plugins
from hotlap.record import codec
from hotlap.record.run import write_atomically
from hotlap.report.html import as_html
from hotlap.report.markdown import as_markdown
from hotlap.report.sections import Report
from hotlap.report.speedscope import as_speedscope
from hotlap.report.tensorboard import write_events
from hotlap.report.terminal import as_text
from hotlap.report.trace import as_trace

TERMINAL = "terminal"


@dataclass(frozen=True)
class Renderer:
    """A format of reports. It shows the sections of a `Report`, or its noun, or its run, and computes nothing."""

    name: str  # as in --format NAME
    suffix: str  # of the file that it is written to, if no other is named
    render: Callable[[Report], str] | None = None
    write_folder: Callable[[Report, Path], None] | None = None  # in place of `render`, for formats of many files
    stem: str = "report"  # of the file
    to_stdout: bool = False  # unless a file is named

    def __post_init__(self) -> None:
        if (self.render is None) == (self.write_folder is None):
            raise ValueError(f"format {self.name}: give one of render and write_folder")

    def write(self, report: Report, path: Path) -> None:
        if self.render is not None:
            write_atomically(path, self.render(report))
        elif self.write_folder is not None:
            self.write_folder(report, path)


def as_json(report: Report) -> str:
    return json.dumps(codec.to_json(report.noun), indent=2) + "\n"


BUILT_IN = (
    Renderer(TERMINAL, ".txt", as_text, to_stdout=True),
    Renderer("md", ".md", as_markdown, to_stdout=True),
    Renderer("html", ".html", as_html),
    Renderer("json", ".json", as_json, to_stdout=True),
    Renderer("trace", ".json", as_trace, stem="trace"),
    Renderer("speedscope", ".json", as_speedscope, stem="speedscope"),
    Renderer("tensorboard", "", write_folder=write_events, stem="tensorboard"),
)


@dataclass(frozen=True)
class Formats:
    """All formats by name, and what is wrong with plugins that are left out, a line each."""

    renderers: dict[str, Renderer]
    problems: tuple[str, ...] = ()


def formats() -> Formats:
    renderers = {renderer.name: renderer for renderer in BUILT_IN}
    added = plugins.load(plugins.FORMATS, Renderer)
    problems = list(added.problems)
    for plugin, loaded in added.objects.items():
        for renderer in loaded if isinstance(loaded, tuple) else (loaded,):
            if renderer.name in renderers:
                problems.append(f"plugin {plugin}: there is a format {renderer.name!r} already")
            else:
                renderers[renderer.name] = renderer
    return Formats(renderers, tuple(problems))
