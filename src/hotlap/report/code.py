"""The part of a profile's report that is about code: hot lines, modules, functions."""

from hotlap.core import units
from hotlap.record.observed import HotLine
from hotlap.record.profile import Profile
from hotlap.report.sections import Cells, Section, Table


def code_sections(profile: Profile) -> list[Section]:
    tables = [
        (profile.hot_lines, _hot_lines),
        (profile.user_lines, _user_lines),
        (profile.modules, _modules),
        (profile.functions, _functions),
    ]
    return [build(profile) for rows, build in tables if rows]


def _hot_lines(profile: Profile) -> Table:
    rows: list[Cells] = [
        (*_times(line), line.stage or "-", line.where, line.code or line.function) for line in profile.hot_lines
    ]
    note = "sampled where Python can be interrupted: at calls and loop ends; native code counts for the line that called it"
    return Table("Hottest lines", (">exclusive", ">inclusive", "", "stage", "where", "code"), rows, note, crop=True)


def _times(line: HotLine) -> tuple[str, str, str]:
    kind = {True: "native", False: "Python", None: ""}[line.native]
    inclusive = line.share if line.cumulative is None else line.cumulative
    return units.share(line.share), units.share(inclusive), kind


def _user_lines(profile: Profile) -> Table:
    rows: list[Cells] = [(units.share(line.share), line.stage or "-", line.where, line.code) for line in profile.user_lines]
    return Table("User code, with the library code it calls", (">share", "stage", "where", "code"), rows, crop=True)


def _modules(profile: Profile) -> Table:
    rows: list[Cells] = []
    for module in profile.modules:
        name = "  " * min(module.depth, 20) + f"{module.name.rpartition('.')[2]} ({module.kind})"
        times = [units.seconds(seconds) if seconds else "-" for seconds in (module.forward, module.backward)]
        rows.append((name, f"{module.parameters:,}", f"{module.calls:,}", *times))
    columns = ("module", ">parameters", ">calls", ">forward", ">backward")
    note = "totals over two iterations with hooks, in a separate pass; containers include what they contain"
    return Table("Modules", columns, rows, note)


def _functions(profile: Profile) -> Table:
    rows: list[Cells] = [
        (
            units.seconds(row.total_seconds),
            units.seconds(row.own_seconds),
            f"{row.calls:,}",
            f"{row.function}  {row.where}",
        )
        for row in profile.functions
    ]
    note = "cProfile, in a separate pass that it slows down; all functions are in profile.pstats"
    return Table("Functions", (">inclusive", ">exclusive", ">calls", "function"), rows, note, crop=True)
