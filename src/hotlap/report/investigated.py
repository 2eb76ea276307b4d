"""An investigation as a noun: what its record says, with the profiles of before and after."""

from dataclasses import dataclass, field
from typing import Final, Literal

from hotlap.core.errors import RecordError
from hotlap.record.codec import FLAT
from hotlap.record.finding import Projection
from hotlap.record.hypothesis import Hypothesis, Reason, Replay, Verdict
from hotlap.record.investigation import Gain, LearningCheck
from hotlap.record.profile import StageTime, Throughput
from hotlap.record.run import Identity, Run, load
from hotlap.record.summary import profile_of

SCHEMA = "hotlap.investigate/2"
FIRST_PROFILE = "profile-1"
PLANNED: Final = "planned"


@dataclass(frozen=True)
class HypothesisRow:
    """A hypothesis with the words of its finding."""

    id: int
    cause: str
    title: str | None
    evidence: tuple[str, ...]
    where: str | None
    fix: str | None
    intervention: str | None
    upper_bound: bool
    changes_learning: bool
    projected: Projection | None
    measured: Gain | None
    verdict: Verdict | Literal["planned"]
    reason: Reason | None
    detail: str | None
    accepted: bool
    alone: bool  # measured against the original, rather than on top of what was accepted before
    experiment: str | None
    replay: Replay | None


@dataclass(frozen=True)
class Snapshot:
    """What a profile of the investigation says."""

    stages: dict[str, StageTime]
    throughput: Throughput


@dataclass(frozen=True)
class InvestigationReport:
    schema: str
    identity: Identity = field(metadata=FLAT)
    command: str
    hypotheses: tuple[HypothesisRow, ...]
    accepted: tuple[str, ...]
    speedup: Gain | None
    speedup_same_learning: Gain | None
    learning: LearningCheck | None
    unsafe: tuple[str, ...]
    before: Snapshot | None
    after: Snapshot | None
    spent: float
    budget: float
    dry: bool
    total_error: str | None
    scratch: str | None = None
    containment: str | None = None
    horizon: int | None = None  # with which time was measured, if it was shortened
    contained: tuple[str, ...] = ()  # what the script does to files, which its scratch contains


def report_of(run: Run) -> InvestigationReport:
    """All that an investigation found."""
    state, setup = run.header.investigation, run.header.setup
    total = state.total
    accepted = [h.intervention.title for h in state.hypotheses if h.accepted and h.intervention]
    return InvestigationReport(
        schema=SCHEMA,
        identity=run.identity,
        command=state.command,
        hypotheses=tuple(map(_row, state.hypotheses)),
        accepted=tuple(accepted),
        speedup=total.everything if total else None,
        speedup_same_learning=total.same_learning if total else None,
        learning=state.learning,
        unsafe=state.unsafe or (),
        before=_snapshot(run, FIRST_PROFILE),
        after=_snapshot(run, state.after),
        spent=state.spent,
        budget=state.settings.budget,
        dry=state.settings.dry,
        total_error=total.error if total else None,
        scratch=setup.scratch,
        containment=setup.containment,
        horizon=state.horizon,
        contained=state.contained,
    )


def _row(h: Hypothesis) -> HypothesisRow:
    finding, intervention = h.finding, h.intervention
    return HypothesisRow(
        id=h.id,
        cause=h.cause,
        title=finding.title if finding else None,
        evidence=finding.evidence if finding else (),
        where=finding.where if finding else None,
        fix=finding.fix if finding else None,
        intervention=intervention.title if intervention else None,
        upper_bound=bool(intervention and intervention.upper_bound),
        changes_learning=bool(intervention and intervention.changes_learning),
        projected=h.projected,
        measured=Gain(h.measured, h.ci95) if h.measured and h.ci95 else None,
        verdict=h.verdict or PLANNED,
        reason=h.reason,
        detail=h.detail,
        accepted=h.accepted,
        alone=h.alone,
        experiment=h.experiment,
        replay=h.replay,
    )


def _snapshot(run: Run, name: str | None) -> Snapshot | None:
    if not name:
        return None
    if name in (".", "..") or "/" in name:
        raise RecordError(f"{run.path / 'run.json'} is damaged: {name!r} is not a folder of the investigation")
    if not (run.path / name / "run.json").exists():
        return None
    profile = profile_of(load(run.path / name))
    return Snapshot(profile.stages, profile.throughput)
