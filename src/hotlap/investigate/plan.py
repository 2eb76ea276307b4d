"""What to try: findings become hypotheses, each with an intervention that tests it, the largest projected gain first."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from hotlap.causes import findings, remedies
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context
from hotlap.core import stats
from hotlap.interventions.edit import Overlap, to_original
from hotlap.interventions.intervention import Intervention, patched, together
from hotlap.interventions.knobs import Knob, knobs_of, knobs_of_system, parse
from hotlap.investigate.sources import Sources
from hotlap.launch.help import help_of
from hotlap.record.finding import Finding, Projection
from hotlap.record.hypothesis import Hypothesis, Reason, Verdict
from hotlap.target import words
from hotlap.target.target import Script, Target

WORTH = 1.03  # a gain below this is not worth a change
MOST_SAVED = 0.9  # of the time: a projection beyond this is no longer one
# Knobs that leave what is learned as it is.
SAME_NUMBERS = (
    "turbo",
    "workers",
    "transport",
    "env_threads",
    "torch_threads",
    "weight_analysis",
    "cpu_offload",
    "zero_copy",
)


def hypotheses(
    evidence: Evidence,
    number: int,
    so_far: Sequence[Hypothesis],
    accepted: Sequence[Intervention],
    sources: Sources,
    knobs: Sequence[Knob],
) -> list[Hypothesis]:
    """New hypotheses from a profile: for every finding one per experiment, or one that says why there is none."""
    context = Context(evidence, evidence.codes, knobs)
    tried = {(h.cause, h.intervention.title) for h in so_far if h.intervention}
    planned: list[Hypothesis] = []
    for finding in findings(evidence):
        tests = [
            Hypothesis(0, finding.cause, number, finding, finding.projected, intervention)
            for intervention in _fitting(context, finding, accepted, sources)
            if (finding.cause, intervention.title) not in tried
        ]
        if not tests and not any(h.cause == finding.cause for h in so_far):
            tests = [_untested(finding, number)]
        planned += tests
    return planned


def _untested(finding: Finding, number: int) -> Hypothesis:
    """A finding without an experiment: it explains a change of speed, or it is advice."""
    if finding.no_fault:
        return Hypothesis(0, finding.cause, number, finding, finding.projected, verdict=Verdict.NO_FAULT)
    inconclusive, reason = Verdict.INCONCLUSIVE, Reason.NO_EXPERIMENT
    return Hypothesis(0, finding.cause, number, finding, finding.projected, verdict=inconclusive, reason=reason)


def _fitting(context: Context, finding: Finding, accepted: Sequence[Intervention], sources: Sources) -> list[Intervention]:
    """Interventions for a finding whose edits still fit: a line that was changed already is left alone."""
    if finding.projected.speedup < WORTH:
        return []
    before = together(accepted).edits
    fitting = []
    for intervention in remedies(context, finding):
        with suppress(Overlap, KeyError, ValueError):
            edits = {f: to_original(sources.texts[f], before.get(f, ()), e) for f, e in intervention.edits.items()}
            moved = replace(intervention, edits=edits)
            patched(together([*accepted, moved]), sources.texts)
            fitting.append(moved)
    return fitting


def knob_hypotheses(command: str, target: Target, knobs: Sequence[str]) -> list[Hypothesis]:
    """What the user asked to try: a knob and its values."""
    return [_knob_hypothesis(command, target, text, value) for text in knobs for value in parse(text)[2]]


def with_claims(planned: Sequence[Hypothesis], command: str, target: Target) -> list[Hypothesis]:
    """What the document behind a system's preset says is faster comes first, each tested alone.

    A finding that leads to the same change is that hypothesis.
    """
    if isinstance(target, Script):
        return list(planned)
    found = {str(h.intervention.config): h for h in planned if h.intervention and h.intervention.config}
    claims, merged = [], []
    for knob, value in words.claims(command):
        config = words.setting(command, knob, value)
        if (same := found.pop(str(config), None)) is not None:
            claims.append(replace(same, alone=True))
            merged.append(same)
        elif config:
            tested = Intervention(f"{knob} {value}", config=config, changes_learning=knob not in SAME_NUMBERS)
            claims.append(Hypothesis(0, f"claim: {tested.title}", 1, intervention=tested, alone=True))
    return [*claims, *(h for h in planned if h not in merged)]


def _knob_hypothesis(command: str, target: Target, text: str, value: str) -> Hypothesis:
    role, knob, _ = parse(text)
    title = f"{role}: {knob.flag} {value}"
    if isinstance(target, Script):
        intervention = Intervention(title, changes_learning=True, **knob.set(value))
    else:
        intervention = Intervention(title, config=words.setting(command, knob.flag, value), changes_learning=True)
    return Hypothesis(0, f"knob {role}", 1, intervention=intervention)


def flags_of(sources: Sources, scratch: str) -> list[Knob]:
    """The flags of a script, the fields of a system's config."""
    target = sources.target
    if isinstance(target, Script):
        return knobs_of(sources.codes(), lambda: help_of(target, scratch))
    return knobs_of_system(target.config)


def projected_now(hypothesis: Hypothesis, so_far: Sequence[Hypothesis]) -> Projection | None:
    """What was projected, with what was accepted since: what is left to save is a larger share of less time.

    Unless what was accepted has shortened the same part of training: fewer updates leave less of an optimizer's time to save.
    """
    if hypothesis.finding is None or hypothesis.alone:
        return hypothesis.projected
    part = _part(hypothesis)
    since = [h.measured for h in so_far if h.accepted and h.profile == hypothesis.profile and h.measured and _part(h) != part]
    shrunk = math.prod(since)
    projected = hypothesis.finding.projected
    speedup, low, high = (_with_less_time(gain, shrunk) for gain in (projected.speedup, *projected.ci95))
    return Projection(speedup, (low, high))


def _part(hypothesis: Hypothesis) -> str | None:
    """The part of training that it is about."""
    return hypothesis.finding.stage.partition("/")[0] if hypothesis.finding else None


def _with_less_time(gain: float, shrunk: float) -> float:
    share = (1 - 1 / gain) * shrunk
    if share > MOST_SAVED:  # what was accepted must have shortened the same work
        return gain
    return stats.amdahl(max(share, 0.0), math.inf)
