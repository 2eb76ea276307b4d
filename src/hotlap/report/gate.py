"""The report of a gate: the comparison behind it, under a line that says whether it passed."""

from hotlap.record.comparison import GateReport
from hotlap.report import comparison
from hotlap.report.sections import Section


def headline(report: GateReport) -> str:
    result = report.result
    if result.slowdown is None or result.slowdown_ci95 is None:
        return f"gate {report.comparison.identity.target} · {result.gate}"
    low, high = result.slowdown_ci95
    measured = f"{result.slowdown:+.1%} time ({low:+.1%} to {high:+.1%}), allowed {result.max_slowdown:+.1%}"
    return f"gate {report.comparison.identity.target} · {result.gate}: {measured}"


def sections(report: GateReport) -> list[Section]:
    return comparison.sections(report.comparison)
