"""The verdict that an experiment gives on its hypothesis; and whether the experiment was one."""

from dataclasses import replace

from hotlap.interventions.intervention import Intervention
from hotlap.investigate.plan import WORTH
from hotlap.record.comparison import ComparisonReport, WorkPair
from hotlap.record.hypothesis import Hypothesis, Reason, Verdict

UNLIKE = 1.3  # times as many updates as were meant, or as few: another change than the one that was meant


def judged(tested: Hypothesis, report: ComparisonReport, applied: set[str]) -> Hypothesis:
    """A hypothesis with the verdict that its comparison gives. `applied` are the changes that the script really used."""
    intervention, comparison = tested.intervention, report.comparisons[0]
    assert intervention is not None
    if not comparison.ratio or not comparison.ci95:
        error = report.identity.error
        reason = Reason.FAILED if error else Reason.TOO_FEW_SAMPLES
        return replace(tested, verdict=Verdict.INCONCLUSIVE, reason=reason, detail=error)
    low, high = comparison.ci95
    measured = replace(tested, measured=comparison.ratio, ci95=(low, high))
    if (fault := fault_of(intervention, comparison.work)) is not None:
        return replace(measured, verdict=Verdict.INCONCLUSIVE, reason=Reason.INVALID, detail=fault)
    if low > 1 and comparison.ratio >= WORTH:
        return replace(measured, verdict=Verdict.CONFIRMED, accepted=not intervention.upper_bound)
    names = intervention.change_names
    if names and not applied.intersection(names):
        return replace(measured, verdict=Verdict.INCONCLUSIVE, reason=Reason.NOT_APPLIED)
    if high < WORTH:
        return replace(measured, verdict=Verdict.REFUTED)
    return replace(measured, verdict=Verdict.INCONCLUSIVE, reason=Reason.UNCLEAR)


def fault_of(intervention: Intervention, work: WorkPair) -> str | None:
    """What shows that the changed target does not do what the intervention says: its speed then proves nothing."""
    before, after = work.a.updates_per_env_step, work.b.updates_per_env_step
    if not before:
        return None
    if not after:
        return "it made no updates"
    times, wanted = after / before, intervention.updates
    if wanted is None or wanted / UNLIKE <= times <= wanted * UNLIKE:
        return None
    return f"{times:.2g} times as many updates per environment step, where {wanted:.2g} times were meant"
