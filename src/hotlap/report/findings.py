"""The report of a diagnosis: its findings, the most promising first."""

from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.paths import WAIT
from hotlap.core.stages import UNATTRIBUTED
from hotlap.record.diagnosis import Diagnosis
from hotlap.record.finding import Finding, Projection
from hotlap.record.header import Status
from hotlap.report.sections import Cells, Notes, Section, Table

MORE = "hotlap diagnose shows all evidence and the fixes"
ADVICE_ONLY = "advice only: hotlap has no experiment for it"


def headline(diagnosis: Diagnosis) -> str:
    number = len(diagnosis.findings)
    crashed = " · failed" if diagnosis.identity.status in (Status.FAILED, Status.KILLED) else ""
    return f"diagnose {diagnosis.identity.target}{crashed} · {number or 'no'} finding{'s' if number != 1 else ''}"


def sections(diagnosis: Diagnosis) -> list[Section]:
    built: list[Section] = [Notes([_answer(diagnosis)], kind="result")]
    if diagnosis.warnings:
        built.append(Notes(diagnosis.warnings))
    if diagnosis.findings:
        built.append(_ranking(diagnosis.findings))
    return [*built, *(finding_table(i, finding) for i, finding in enumerate(diagnosis.findings, 1))]


def above(diagnosis: Diagnosis) -> list[Section]:
    """The findings as they stand above a profile: the answer, and what there is to fix with the first of its evidence."""
    if not diagnosis.stages:
        return []
    answer = Notes([_answer(diagnosis)], kind="result")
    if not diagnosis.findings:
        return [answer]
    evidence: list[Cells] = [(str(i), finding.evidence[0]) for i, finding in enumerate(diagnosis.findings, 1)]
    return [answer, _ranking(diagnosis.findings), Table("Evidence", ("", ""), evidence, MORE)]


def _answer(diagnosis: Diagnosis) -> str:
    """Of a run that crashed, that it crashed; and what can be said of the time until then."""
    identity = diagnosis.identity
    if identity.status not in (Status.FAILED, Status.KILLED):
        return summary(diagnosis)
    crash = f"This run crashed: {identity.error or 'its process was killed'}."
    return f"{crash} Until then: {summary(diagnosis)}" if diagnosis.findings else f"{crash} Nothing else can be said."


def summary(diagnosis: Diagnosis) -> str:
    """The diagnosis in a sentence."""
    findings = diagnosis.findings
    if not findings:
        largest = sorted(diagnosis.stages, key=lambda path: -diagnosis.stages[path].share)[:3]
        where = ", ".join(f"{path} {units.share(diagnosis.stages[path].share)}" for path in largest)
        if largest and largest[0] in (WAIT, UNATTRIBUTED):
            return f"No cause of slowness was found, and most of the time is not spent on training here ({where})."
        return f"No cause of slowness was found: the time goes to the work of training itself{f' ({where})' if where else ''}."
    worth = [finding for finding in findings if finding.projected.speedup > 1]
    if not worth:
        return _sentence(findings[0])
    first = worth[0]
    promise = f"Fixing that should make it {gain(first.projected)} as fast"
    return f"{_sentence(first)} {promise}; an experiment would tell." if first.confirm else f"{_sentence(first)} {promise}."


def _sentence(finding: Finding) -> str:
    return f"{finding.title[:1].upper()}{finding.title[1:]}."


def gain(projected: Projection) -> str:
    low, high = projected.ci95
    return f"{projected.speedup:.2f}x ({low:.2f}-{high:.2f})"


def _ranking(findings: Sequence[Finding]) -> Table:
    rows: list[Cells] = []
    for i, finding in enumerate(findings, 1):
        projected = gain(finding.projected) if finding.projected.speedup > 1 else "none"
        learning = "may change" if finding.changes_learning else "same"
        rows.append((str(i), finding.cause, projected, learning, finding.where or finding.stage))
    note = "projected: from shares of the time, not measured; hotlap investigate runs the experiment"
    return Table("Findings", (">", "cause", ">projected", "learning", "where"), rows, note)


def finding_table(number: int, finding: Finding) -> Table:
    rows: list[Cells] = [("evidence", line) for line in finding.evidence]
    if finding.where:
        rows.append(("where", finding.where))
    rows.append(("no fault" if finding.no_fault else "fix", finding.fix))
    if not finding.no_fault:
        rows.append(("confirm", finding.confirm or ADVICE_ONLY))
    if finding.merged:
        rows.append(("explains", ", ".join(finding.merged)))
    if finding.sources:
        rows.append(("reported in", ", ".join(finding.sources)))
    return Table(f"{number}. {finding.cause}: {finding.title}", ("", ""), rows)
