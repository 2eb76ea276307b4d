"""Reports of anything: a noun, or a run that is loaded, worded as sections and shown in the terminal."""

from collections.abc import Collection
from typing import Any

from hotlap import causes
from hotlap.core.errors import RecordError
from hotlap.experiment import compare, delay, growth
from hotlap.experiment import sweep as sweeping
from hotlap.record.comparison import ComparisonReport, GateReport
from hotlap.record.diagnosis import Diagnosis
from hotlap.record.header import Verb
from hotlap.record.networks import NetComparison
from hotlap.record.profile import Profile
from hotlap.record.run import Run
from hotlap.record.summary import profile_of
from hotlap.record.sweep import DelayReport, GrowthReport, SweepReport
from hotlap.report import comparison, findings, gate, investigation, networks, profile, sweep, terminal
from hotlap.report.investigated import InvestigationReport
from hotlap.report.sections import Notes, Report, Section

# Kind of noun -> how its report is worded: its headline, its sections.
WORDED: dict[type, tuple[Any, Any]] = {
    ComparisonReport: (comparison.headline, comparison.sections),
    GateReport: (gate.headline, gate.sections),
    SweepReport: (sweep.headline, sweep.sections),
    DelayReport: (sweep.headline, sweep.delay_sections),
    GrowthReport: (sweep.headline, sweep.growth_sections),
    Diagnosis: (findings.headline, findings.sections),
    InvestigationReport: (investigation.headline, investigation.sections),
    NetComparison: (networks.headline, networks.sections),
}


def noun_of(run: Run) -> Any:
    """What a run found, by its verb."""
    match run.header.verb:
        case Verb.COMPARE:
            return compare.report_of(run)
        case Verb.SWEEP if run.header.interleaved.until:
            return growth.report_of(run)
        case Verb.SWEEP if run.header.interleaved.delay:
            return delay.report_of(run)
        case Verb.SWEEP:
            return sweeping.report_of(run)
        case Verb.INVESTIGATE:
            return investigation.report_of(run)
        case _:
            return profile_of(run)


def report_of(noun: Any, run: Run | None = None, breakdown: bool = True) -> Report:
    """A noun as a report, for any renderer."""
    if isinstance(noun, Profile):
        return Report(profile.headline(noun), [*_findings(run), *profile.sections(noun, breakdown)], noun, run)
    headline, sections = next(words for kind, words in WORDED.items() if isinstance(noun, kind))
    return Report(headline(noun), sections(noun), noun, run)


def _findings(run: Run | None) -> list[Section]:
    """What stands above a profile's tables: why it is slow."""
    if run is None or run.header.verb is not Verb.PROFILE or run.header.setup.env_only:
        return []
    try:
        return findings.above(causes.diagnose(run))
    except RecordError as error:  # the tables do not need what is damaged
        return [Notes([str(error)])]


def show_report(noun: Any, breakdown: bool = True, only: Collection[str] = (), run: Run | None = None) -> None:
    """A noun in the terminal; `only` the tables with these titles, and notes."""
    report = report_of(noun, run, breakdown)
    shown = [s for s in report.sections if not only or isinstance(s, Notes) or s.title in only]
    terminal.render(report.title, shown, terminal.Output())


def show_run(run: Run, breakdown: bool = True, only: Collection[str] = ()) -> None:
    show_report(noun_of(run), breakdown, only, run)


def show_nets(nets: NetComparison) -> None:
    show_report(nets)
