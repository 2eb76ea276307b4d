"""Diagnosis: a run's evidence goes through one list of causes, each with a rule that knows its signs.

A rule gives a suspicion or nothing. Suspicions that explain each other are merged, and what is left is ordered: free fixes that
are worth it first, then changes of the recipe, then small free fixes, then facts. A finding is a suspicion in words:
`hotlap investigate` runs the experiment that confirms or refutes it.

To add a cause, write its entry in the file of its family, and add it to that file's CAUSES. Another package adds causes by
the entry point group `hotlap.causes`: each entry point gives a `Cause`, or a tuple of them.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hotlap.causes import (
    acting,
    buffers,
    devices,
    environments,
    floor,
    habits,
    interpreted,
    long_runs,
    recipes,
    threads,
    updates,
    vectors,
)
from hotlap.causes.cause import NOTHING, Cause, Saved, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context
from hotlap.causes.stacks import StackSample
from hotlap.core import plugins
from hotlap.core.errors import RecordError
from hotlap.core.text import one_line
from hotlap.interventions.intervention import Intervention
from hotlap.record.diagnosis import Diagnosis
from hotlap.record.files import SOURCES
from hotlap.record.finding import Finding
from hotlap.record.header import Verb
from hotlap.record.run import Run

__all__ = [
    "BUILT_IN",
    "Catalogue",
    "Cause",
    "Context",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Saved",
    "StackSample",
    "Suspicion",
    "catalogue",
    "diagnose",
    "findings",
    "merge",
    "remedies",
]

FAMILIES = (
    interpreted,
    environments,
    vectors,
    acting,
    buffers,
    updates,
    recipes,
    devices,
    threads,
    habits,
    long_runs,
    floor,
)
SHOWN = 1.05  # times faster: below this a finding is not shown
WORTH_IT = 1.15  # times faster: from here a free fix comes before changes of the recipe
DWARFED = 6.0  # times as much to gain, as logarithms, from a change of the recipe: then it comes before the free fix
BUILT_IN: Mapping[str, Cause] = {cause.id: cause for family in FAMILIES for cause in family.CAUSES}


@dataclass(frozen=True)
class Catalogue:
    """All causes by their ids, in the order in which their rules run; and what is wrong with plugins, a line each."""

    causes: Mapping[str, Cause]
    problems: tuple[str, ...] = ()


def catalogue() -> Catalogue:
    """hotlap's causes, and those of plugins."""
    added = plugins.load(plugins.CAUSES, Cause)
    causes, problems = dict(BUILT_IN), list(added.problems)
    for name, entry in added.objects.items():
        for cause in entry if isinstance(entry, tuple) else (entry,):
            if cause.id in causes:
                problems.append(f"plugin {name}: the cause {cause.id!r} exists already; the plugin's is left out")
            else:
                causes[cause.id] = cause
    return Catalogue(causes, tuple(problems))


# -- findings --


def diagnose(run: Run) -> Diagnosis:
    """The findings of a run, in the order of `_rank`."""
    evidence = Evidence(run)
    findings, problems = _find(evidence)
    profile = evidence.profile
    if not evidence.stack_samples and not evidence.is_system:
        problems.append("No lines were sampled, so no line can be blamed.")
    return Diagnosis(
        identity=replace(run.identity, verb=Verb.DIAGNOSE),
        findings=tuple(findings),
        throughput=profile.throughput,
        stages=profile.stages,
        warnings=(*profile.warnings, *problems),
    )


def findings(evidence: Evidence) -> list[Finding]:
    """Findings in the order in which to try their fixes."""
    return _find(evidence)[0]


def _find(evidence: Evidence) -> tuple[list[Finding], list[str]]:
    """The findings, and what went wrong in plugins."""
    known = catalogue()
    problems = list(known.problems)
    if not evidence.samples:
        return [], problems
    suspicions: dict[str, Suspicion] = {}
    for cause in known.causes.values():
        if cause is floor.HOT_SPOT:
            continue  # it has the last word
        try:
            suspicion = cause.rule(evidence)
        except RecursionError:
            raise RecordError(f"{evidence.run.path / SOURCES} is damaged: code that is nested too deeply") from None
        except Exception as error:
            if cause.id in BUILT_IN:
                raise
            problems.append(one_line(f"the plugin's rule for {cause.id} failed: {type(error).__name__}: {error}"))
            continue
        if suspicion is not None:
            suspicions[cause.id] = suspicion
    merged = merge(suspicions, known.causes)
    if (spot := floor.unexplained(evidence, [suspicions[id] for id in merged])) is not None:
        suspicions[floor.HOT_SPOT.id], merged[floor.HOT_SPOT.id] = spot, ()
    named = {id: replace(known.causes[id].finding(suspicions[id]), merged=merged[id]) for id in merged}
    shown = [finding for id, finding in named.items() if _is_shown(finding, suspicions[id])]
    recipe = max((math.log(finding.projected.speedup) for finding in shown if finding.changes_learning), default=0.0)
    return sorted(shown, key=lambda finding: _rank(finding, recipe)), problems


def _is_shown(finding: Finding, suspicion: Suspicion) -> bool:
    """A gain too small to care about is left out; what promises none explains something."""
    return suspicion.saved == NOTHING or finding.projected.speedup >= SHOWN


def _rank(finding: Finding, recipe: float) -> tuple[int, float]:
    """Fixes that compute the same and are worth it, changes of the recipe, small free fixes, facts; each by its gain.

    `recipe` is the logarithm of what the best change of the recipe gains: a free fix that is small beside it is a small one.
    """
    gain = finding.projected.speedup
    if gain <= 1:
        place = 3
    elif finding.changes_learning:
        place = 1
    else:
        place = 0 if gain >= WORTH_IT and recipe <= DWARFED * math.log(gain) else 2
    return place, -gain


def merge(suspicions: Mapping[str, Suspicion], causes: Mapping[str, Cause]) -> dict[str, tuple[str, ...]]:
    """Suspicions without those that another explains: one of which the other is a sign, with no more to gain than it has.

    What is left, each with the causes that were merged into it.
    """
    merged: dict[str, tuple[str, ...]] = dict.fromkeys(suspicions, ())
    for cause in suspicions:
        for other in causes[cause].explains:
            if cause in merged and other in merged and _outweighs(suspicions[cause], suspicions[other]):
                merged[cause] = (*merged[cause], other, *merged.pop(other))
    return merged


def _outweighs(suspicion: Suspicion, other: Suspicion) -> bool:
    return other.saved == NOTHING or suspicion.outweighs_all or suspicion.saved.value >= 0.5 * other.saved.value


# -- experiments --


def remedies(context: Context, finding: Finding) -> list[Intervention]:
    """Interventions that test a finding, the best first; none where hotlap knows no experiment for it."""
    cause = catalogue().causes.get(finding.cause)
    if cause is None or cause.remedies is None:
        return []
    try:
        interventions = cause.remedies(context, finding)
    except Exception as error:
        if cause.id in BUILT_IN:
            raise
        warnings.warn(one_line(f"the plugin's experiments for {cause.id} failed: {error}"), stacklevel=2)
        return []
    return [one for one in interventions if one.config] if context.evidence.is_system else interventions
