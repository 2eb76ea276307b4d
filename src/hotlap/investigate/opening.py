"""The record of an investigation: begun, or opened again to go on."""

import shutil
from dataclasses import replace
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.experiment import compare
from hotlap.record.header import Verb
from hotlap.record.hypothesis import MORE_TIME
from hotlap.record.investigation import InvestigationState, Settings
from hotlap.record.run import Run, load
from hotlap.target.interpreter import machine_of
from hotlap.target.target import Variant

LAST = 99  # the number of the profile that shows the end


def begin(variant: Variant, command: str, settings: Settings, out: Path | None = None) -> Run:
    """The record of a new investigation. `command` is the target as the user named it, secrets masked."""
    state = InvestigationState(command=command, settings=settings)
    setup = compare.setup_of([variant], settings.scratch)
    name, config, machine = variant.target.name, {"target": variant.to_record()}, machine_of([variant])
    return Run.create(Verb.INVESTIGATE, name, config, machine, out, setup=setup, investigation=state)


def reopen(path: str, rerun: bool = False, budget: float | None = None) -> Run:
    """An investigation that was interrupted, planned only, or refused, to go on with."""
    run = load(path, (Verb.INVESTIGATE,))
    if run.header.verb is not Verb.INVESTIGATE:
        raise UsageError(f"{path} is a {run.header.verb}, not an investigation")
    run.refuse_if_running()
    state = run.header.investigation
    settings = replace(state.settings, dry=False, rerun=state.settings.rerun or rerun)
    if budget:
        settings = replace(settings, budget=budget)
        state = _with_unsettled_planned(state, run.path)
    run.restart(investigation=replace(state, settings=settings))
    return run


def _with_unsettled_planned(state: InvestigationState, folder: Path) -> InvestigationState:
    """What more time may settle is to be done, and the last steps once more if there is anything."""
    if not any(h.reason in MORE_TIME for h in state.hypotheses):
        return state
    hypotheses = tuple(
        replace(h, verdict=None, reason=None, measured=None, ci95=None) if h.reason in MORE_TIME else h
        for h in state.hypotheses
    )
    shutil.rmtree(folder / f"profile-{LAST}", ignore_errors=True)
    return replace(state, hypotheses=hypotheses, total=None, losses=None, learning=None, after=None)
