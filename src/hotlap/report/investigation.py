"""The report of an investigation: the answer first, then what was tried, and how to repeat it."""

from collections.abc import Sequence

from hotlap.core import units
from hotlap.record.header import Status
from hotlap.record.hypothesis import MORE_TIME, Reason, Replay, Verdict
from hotlap.record.investigation import Gain, LearningVerdict
from hotlap.report.commands import hotlap, on_target, python_flags
from hotlap.report.investigated import PLANNED, HypothesisRow, InvestigationReport
from hotlap.report.investigated import report_of as report_of
from hotlap.report.learning import learning_lines, learning_table
from hotlap.report.sections import Bar, Cells, Notes, Section, Table, containment_rows, machine_rows, stage_name

SMALL = 0.005  # share of a stage below which it is left out
REASONS = {
    Reason.BUDGET_SPENT: "the budget was spent",
    Reason.SETTLED: "another experiment for this cause had succeeded",
    Reason.NO_EXPERIMENT: "advice only: hotlap knows no experiment for it",
    Reason.TOO_FEW_SAMPLES: "too few samples",
    Reason.UNCLEAR: "the interval includes both a speedup and no effect",
    Reason.NOT_APPLIED: "the script never used what was changed",
    Reason.INVALID: "it did not do what it should",
    Reason.OVERLAP: "it edits a line that was changed already",
    Reason.FAILED: "it failed",
}


def headline(report: InvestigationReport) -> str:
    return f"investigate {report.command} · {report.identity.status}"


def sections(report: InvestigationReport) -> list[Section]:
    built: list[Section] = [Notes(summary(report), kind="result")]
    if warnings := _warnings(report):
        built.append(Notes(warnings))
    if report.hypotheses:
        built += [_hypotheses(report), *map(_why, _confirmed_causes(report))]
    if refuted := [h for h in report.hypotheses if h.verdict is Verdict.REFUTED]:
        built.append(_refuted(refuted))
    if report.before and report.before.stages:
        built.append(_before_after(report))
    if report.learning:
        built.append(learning_table(report.learning))
    return [*built, _recipe(report), _monitoring(report)]


# -- the answer --


def summary(report: InvestigationReport) -> list[str]:
    """The answer, in plain words."""
    if report.unsafe:
        refused = "The script was profiled but not run again, because that may not be safe. --rerun allows it."
        return [refused, *report.unsafe, *(f"{line}: a scratch contains that" for line in report.contained)]
    if report.dry:
        planned = sum(h.verdict == PLANNED for h in report.hypotheses)
        return [f"The plan: {planned} experiments. Nothing was changed, and only a profile was run."]
    confirmed = [h for h in report.hypotheses if h.verdict is Verdict.CONFIRMED]
    lines = [_answer(report, confirmed)]
    if report.speedup:
        lines.append(
            f"All accepted changes together make it {_interval(report.speedup)} as fast, measured against the original."
        )
        safe, losses = report.speedup_same_learning, report.learning and report.learning.losses
        if safe and safe != report.speedup and losses and losses.verdict is LearningVerdict.SAME_LOSSES:
            lines.append(f"Those that cannot change what is learned make it {_interval(safe)} as fast.")
        lines += learning_lines(report.learning)
    lines += [
        f"Upper bound: {_interval(h.measured)} can come from {h.cause} ({h.where}): {h.fix}. You have to write this fix."
        for h in confirmed
        if h.upper_bound and h.measured
    ]
    return lines


def _answer(report: InvestigationReport, confirmed: Sequence[HypothesisRow]) -> str:
    if confirmed:
        causes = list(dict.fromkeys(h.title for h in confirmed if h.title))
        alone, on_top = (
            [
                f"{h.intervention} ({h.measured.ratio:.2f}x)"
                for h in confirmed
                if not h.title and h.measured and h.alone is alone
            ]
            for alone in (True, False)
        )
        parts = [
            f"It is slow because {'; because '.join(causes)}." if causes else "",
            f"Faster, each alone: {', '.join(alone)}." if alone else "",
            f"Faster, on top of what was accepted: {', '.join(on_top)}." if on_top else "",
        ]
        return " ".join(filter(None, parts))
    if any(h.verdict == PLANNED for h in report.hypotheses):
        return f"The investigation is not finished: continue it with {hotlap('investigate', '--resume', report.identity.run)}"
    if unsettled := _unsettled(report):
        return f"No suspected cause was confirmed, and these are not settled: {unsettled}"
    if report.identity.status is Status.FAILED:
        return "It failed before any cause was tested, so nothing can be said of its speed."
    if any(h.verdict is Verdict.REFUTED for h in report.hypotheses):
        return "Every suspected cause was tested and refuted: the time goes to the work of training itself."
    return "No cause of slowness was found: the time goes to the work of training itself."


def _unsettled(report: InvestigationReport) -> str:
    """What is still suspected, why that is not settled, and what it would take."""
    unsettled = [h for h in report.hypotheses if h.verdict in (Verdict.INCONCLUSIVE, Verdict.SKIPPED)]
    if not unsettled:
        return ""
    causes: dict[str, str] = {}
    for h in unsettled:
        causes.setdefault(h.cause, _reason(h))
    named = "; ".join(f"{cause} ({reason})" if reason else cause for cause, reason in causes.items())
    if not any(h.reason in MORE_TIME for h in unsettled):
        return f"{named}."
    longer = hotlap("investigate", "--resume", report.identity.run, "--budget", f"{2 * report.budget:.0f}s")
    return f"{named}. More time may settle them: {longer}"


def _interval(gain: Gain) -> str:
    low, high = gain.ci95
    return f"{gain.ratio:.2f}x (95% {low:.2f}-{high:.2f})"


def _warnings(report: InvestigationReport) -> list[str]:
    messages = []
    if report.identity.status in (Status.INTERRUPTED, Status.KILLED):
        messages.append(f"The investigation was {report.identity.status}: this is what it had found by then.")
    if report.identity.error:
        messages.append(report.identity.error)
    if report.horizon:
        messages.append(
            f"Time was measured in shorter iterations (horizon {report.horizon}): the same work per step, more samples."
        )
    if report.total_error:
        messages.append(f"All changes together: {report.total_error}")
    if not report.unsafe:
        messages += [f"{line}: the scratch contains that." for line in report.contained]
    return messages


# -- hypotheses --


def _hypotheses(report: InvestigationReport) -> Table:
    rows: list[Cells] = []
    for h in report.hypotheses:
        if h.verdict is Verdict.SKIPPED and h.reason is Reason.SETTLED:
            continue
        projected = f"{h.projected.speedup:.2f}x" if h.projected and h.projected.speedup > 1 else "-"
        measured = f"{h.measured.ratio:.2f}x ({h.measured.ci95[0]:.2f}-{h.measured.ci95[1]:.2f})" if h.measured else "-"
        rows.append((h.cause, projected, measured, str(h.verdict), _experiment(h)))
    note = (
        "projected from shares of the time; measured in interleaved runs of fresh processes, 95% intervals; "
        "upper bound: with the cause gone"
    )
    return Table("Hypotheses", ("cause", ">projected", ">measured", "verdict", "experiment"), rows, note)


def _experiment(h: HypothesisRow) -> str:
    """What was tried, or why nothing was."""
    if h.intervention:
        learning = " (may change learning)" if h.changes_learning else ""
        why = f": {reason}" if h.verdict in (Verdict.INCONCLUSIVE, Verdict.SKIPPED) and (reason := _reason(h)) else ""
        return ("upper bound: " if h.upper_bound else "") + h.intervention + learning + why + _far_below(h)
    return _reason(h) or next(iter(h.evidence), "")


def _far_below(h: HypothesisRow) -> str:
    if h.measured is None or h.projected is None or h.measured.ci95[1] >= h.projected.ci95[0]:
        return ""
    return "; far less than projected: most of that time goes to something else"


def _reason(h: HypothesisRow) -> str:
    return " ".join(part for part in (REASONS[h.reason] if h.reason else "", f"({h.detail})" if h.detail else "") if part)


def _confirmed_causes(report: InvestigationReport) -> list[HypothesisRow]:
    """The first confirmed hypothesis of each cause."""
    causes: dict[str, HypothesisRow] = {}
    for h in report.hypotheses:
        if h.verdict is Verdict.CONFIRMED and h.title:
            causes.setdefault(h.cause, h)
    return list(causes.values())


def _why(h: HypothesisRow) -> Table:
    rows: list[Cells] = [("evidence", line) for line in h.evidence]
    if h.where:
        rows.append(("where", h.where))
    rows.append(("fix", h.fix or ""))
    if h.replay and h.replay.before and h.replay.after:
        rows.append(("replayed", _replayed(h.replay)))
    if h.measured:
        rows.append(("proof", f"{h.intervention}: {_interval(h.measured)}; {h.experiment}"))
    return Table(f"{h.cause}: {h.title}", ("", ""), rows)


def _replayed(replay: Replay) -> str:
    assert replay.before and replay.after
    each = f"{units.seconds(replay.before / replay.calls)} before, {units.seconds(replay.after / replay.calls)} after"
    same = "same results" if replay.same else "OTHER RESULTS"
    return f"{replay.calls} recorded calls of {replay.function}(): {each}, {replay.before / replay.after:.1f}x, {same}"


def _refuted(refuted: Sequence[HypothesisRow]) -> Table:
    rows: list[Cells] = [(h.cause, _interval(h.measured) if h.measured else "-", h.intervention or "") for h in refuted]
    return Table("Refuted: it is not this", ("cause", ">measured", "experiment"), rows)


# -- before and after, and what to do next --


def _before_after(report: InvestigationReport) -> Table:
    before = report.before.stages if report.before else {}
    after = report.after.stages if report.after else {}
    rows: list[Cells] = []
    for path in dict.fromkeys([*before, *after]):
        a, b = (table[path].share if path in table else 0.0 for table in (before, after))
        if max(a, b) >= SMALL:
            rows.append((stage_name(path), units.share(a), Bar(a), *((units.share(b), Bar(b)) if after else ())))
    columns = ("stage", ">before", "", *((">after", "") if after else ()))
    return Table("Where the time goes", columns, rows, "exclusive shares of each run's time")


def _recipe(report: InvestigationReport) -> Table:
    run = report.identity.run
    python = python_flags(report.identity.machine)
    again = on_target("investigate", report.command, [*python, "--budget", f"{report.budget:.0f}s"])
    rows: list[Cells] = [("again", again)] if again else []
    rows += [(f"experiment {h.id}", hotlap("report", f"{run}/{h.experiment}")) for h in report.hypotheses if h.experiment]
    if report.accepted:
        rows.append(("apply", hotlap("investigate", "--resume", run, "--apply")))
    rows.append(("time", f"{units.seconds(report.spent)} of {units.seconds(report.budget)}"))
    rows += [*containment_rows(report.scratch, report.containment), *machine_rows(report.identity.machine)]
    return Table("To repeat it", ("", ""), rows)


def _monitoring(report: InvestigationReport) -> Table:
    """Limits that a later profile can be held to."""
    rows: list[Cells] = []
    latest = report.after or report.before
    if latest and (rate := latest.throughput.env_steps_per_s):
        limit = ["--target", f"env_steps_per_s>{0.9 * rate:.0f}"]
        command = on_target("profile", report.command, [*python_flags(report.identity.machine), *limit])
        rows += [("throughput", command)] if command else []
    rows.append(("once", hotlap("gate", "latest", "--save", "baseline.json")))
    rows.append(("in CI", hotlap("gate", "latest", "--baseline", "baseline.json", "--max-slowdown", "5%")))
    return Table("To keep it fast", ("", ""), rows)
