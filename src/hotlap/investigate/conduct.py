"""Investigation: profile, findings, experiments, a verdict on each, and a fix that is proven.

Each hypothesis is a finding and an intervention that tests it, measured against the target as it is so far in interleaved runs.
What is confirmed is accepted, and the target is profiled again, until nothing worth a try is left or the time is spent. Then
everything accepted is measured together against the original, and what it learns is checked. All state is in the record at
once, so that an investigation that was interrupted goes on where it was.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.causes.evidence import Evidence
from hotlap.core.errors import RecordError, TargetFailed
from hotlap.experiment import compare, learning
from hotlap.interventions import APPLIED
from hotlap.interventions.edit import Overlap
from hotlap.interventions.intervention import AS_IS, Intervention, together
from hotlap.interventions.knobs import Knob
from hotlap.investigate import plan, safety
from hotlap.investigate.iterations import shortened
from hotlap.investigate.judgement import judged
from hotlap.investigate.opening import LAST
from hotlap.investigate.project import modules_of
from hotlap.investigate.replay import projected, replay
from hotlap.investigate.sources import Sources
from hotlap.launch import profile as launch_profile
from hotlap.launch.options import ProfileOptions
from hotlap.launch.scratch import ScratchKind
from hotlap.record.blocks import Plan, Schedule
from hotlap.record.comparison import ComparisonReport
from hotlap.record.header import Status, Verb
from hotlap.record.hypothesis import Hypothesis, Reason, Verdict
from hotlap.record.investigation import Gain, InvestigationState, LearningCheck, LearningVerdict, Settings, Total
from hotlap.record.run import Run, load
from hotlap.target.target import Script, System, Variant
from hotlap.target.variant import with_intervention

# Seconds that a step may take, and its share of a small budget.
PROFILE, EXPERIMENT, TOTAL, REPLAY = (8.0, 0.15), (45.0, 0.25), (30.0, 0.25), (10.0, 0.08)
STARTING = (10.0, 0.3)  # seconds at least, and share of the budget, in which a script must begin to train
ITERATIONS = 20  # that an experiment has time for at least, if the budget allows
MOST_PROFILES = 5
BEYOND = (1.15, 5.0)  # times the budget, and seconds more, after which an investigation is over
LEAST_LEARNING = 10.0  # seconds for curves, however little is left
ORIGINAL, SAFE, EVERYTHING = "original", "without changes to learning", "all accepted"

OnProgress = Callable[[str, float], None]  # (what goes on, seconds spent)
OnPlan = Callable[[Sequence[Hypothesis]], None]  # (hypotheses that will be tried)


class Investigation:
    """One target, from the first profile to the last. Its state is the record's."""

    def __init__(
        self,
        run: Run,
        variant: Variant,
        settings: Settings,
        on_progress: OnProgress = lambda *_: None,
        on_plan: OnPlan = lambda _: None,
    ) -> None:
        self.run, self.variant, self.settings = run, variant, settings
        self._tell, self._list = on_progress, on_plan
        self._began = time.monotonic() - run.header.investigation.spent
        self._knobs: list[Knob] | None = None
        self._iteration = 0.0  # seconds, by the last profile
        self._evidence: dict[int, Evidence] = {}  # by the number of the profile
        self.sources = Sources(run.path, variant.target).read()

    # -- state --

    @property
    def state(self) -> InvestigationState:
        return self.run.header.investigation

    @property
    def accepted(self) -> list[Intervention]:
        return [h.intervention for h in self.state.hypotheses if h.accepted and h.intervention]

    @property
    def spent(self) -> float:
        return float(time.monotonic() - self._began)

    def left(self, reserve: float = 0.0) -> float:
        return self.settings.budget - reserve - self.spent

    @property
    def _reserve(self) -> float:
        """Time that the last steps need."""
        return 0.35 * self.settings.budget

    def _at_most(self, step: tuple[float, float]) -> float:
        seconds, share = step
        if step in (EXPERIMENT, TOTAL):
            seconds = max(seconds, ITERATIONS * self._iteration)
        return min(seconds, share * self.settings.budget)

    @property
    def _patience(self) -> float:
        """Seconds that a script may take to begin training."""
        return max(STARTING[0], STARTING[1] * self.settings.budget)

    def _save(self, **changes: Any) -> None:
        self.run.update(investigation=replace(self.state, spent=self.spent, **changes))

    def _settle(self, hypothesis: Hypothesis) -> None:
        """Put a hypothesis with its verdict in the place of the one that was planned."""
        self._save(hypotheses=tuple(hypothesis if h.id == hypothesis.id else h for h in self.state.hypotheses))

    def _progress(self, what: str) -> None:
        self._tell(what, self.spent)

    # -- the course of it --

    def conduct(self) -> None:
        """Everything, in order; what the record already has is not done again."""
        for number in range(1, MOST_PROFILES + 1):
            try:
                evidence = self.profile(number)
            except TargetFailed:
                if number == 1:
                    raise
                break  # with what was accepted it ends too soon, or fails: the rest can still be measured
            if not self._may_run_again(evidence):
                return
            planned = self.plan(evidence, number)
            if self.settings.dry:
                return
            if not self.experiments(number) or not planned or self.left(self._reserve) < self._at_most(EXPERIMENT):
                break
        self.total()
        self.check_learning()
        if self.accepted and not self.state.after and self.left() > -0.1 * self.settings.budget:
            with suppress(TargetFailed):  # it may be too fast now to be profiled before it ends
                self.profile(LAST)
                self._save(after=f"profile-{LAST}")

    def _may_run_again(self, evidence: Evidence) -> bool:
        """Whether the target may be run again; if not, the record says why."""
        if isinstance(self.variant.target, System) or self.settings.rerun:
            self._demand_samples(evidence)
            return True
        target = self.variant.target
        assert isinstance(target, Script)
        observed = load(self.run.path / "profile-1").header.observed
        codes = modules_of(target, observed.user_modules)
        in_place = ScratchKind(self.settings.scratch) is ScratchKind.IN_PLACE
        objections = safety.objections(codes, observed.effects, in_place)
        reasons = objections.reasons if codes else ("its code could not be read",)
        self._save(unsafe=reasons, contained=objections.contained)
        if reasons:
            self._knobs = []  # not even --help
            self.plan(evidence, 1)
            return False
        self._demand_samples(evidence)
        return True

    def _demand_samples(self, evidence: Evidence) -> None:
        if not evidence.samples:
            raise TargetFailed("nothing could be measured: see the profile in the record")

    def profile(self, number: int) -> Evidence:
        """The target with all that is accepted so far, profiled."""
        folder = self.run.path / f"profile-{number}"
        if not (folder / "run.json").exists() or load(folder).header.status is not Status.DONE:
            self._progress("profiling" if number == 1 else "profiling again, with what was accepted")
            if folder.exists():
                shutil.rmtree(folder)
            variant = self._variant(together(self.accepted), "profiled")
            if number == 1 and variant.target != self.variant.target:
                self._save(horizon=variant.target.config["horizon"])  # type: ignore[union-attr]
            # no pauses: rare and long work counts too
            options = ProfileOptions(seconds=self._at_most(PROFILE), patience=self._patience, period=0.01, pause=0.0)
            rerun = number == 1 or self.settings.rerun  # the first one shows what the script does
            launch_profile.profile(variant, options, folder, self.settings.scratch, rerun)
            self.sources.read()
        run = load(folder)
        if run.header.status is Status.FAILED:
            raise TargetFailed(f"{self.variant.name} failed: {run.header.error} (its output: {folder}.log)")
        if run.header.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        self._evidence[number] = evidence = Evidence(run)
        if isinstance(self.variant.target, System) and evidence.samples:
            self._iteration = evidence.wall / len(evidence.samples)
        return evidence

    def _variant(self, intervention: Intervention, name: str) -> Variant:
        """For measuring time: with shorter iterations, if it is a system whose are long."""
        whole = self._unshortened(intervention, name)
        return replace(whole, target=shortened(whole.target, self.variant.target))

    def _unshortened(self, intervention: Intervention, name: str) -> Variant:
        texts = self.run.path / "texts"
        return with_intervention(self.variant, intervention, self.sources.texts, self.sources.paths, texts, name)

    # -- hypotheses --

    def plan(self, evidence: Evidence, number: int) -> list[Hypothesis]:
        """What to try next: added to the record, and returned."""
        if (ids := self.state.planned.get(str(number))) is not None:
            return [h for h in self.state.hypotheses if h.id in ids]
        if self._knobs is None:
            self._knobs = plan.flags_of(self.sources, self.settings.scratch)
        so_far = self.state.hypotheses
        new = plan.hypotheses(evidence, number, so_far, self.accepted, self.sources, self._knobs)
        if number == 1:
            new = plan.with_claims(new, self.state.command, self.variant.target)
            new += plan.knob_hypotheses(self.state.command, self.variant.target, self.settings.knobs)
        new = [replace(h, id=i) for i, h in enumerate(new, len(so_far) + 1)]
        planned = {**self.state.planned, str(number): tuple(h.id for h in new)}
        self._save(hypotheses=(*so_far, *new), planned=planned)
        self._list([h for h in new if h.verdict is None])
        return new

    def experiments(self, number: int) -> bool:
        """Run what is planned and not yet run; whether something of this profile was accepted."""
        for hypothesis in self.state.hypotheses:
            if hypothesis.verdict is not None or hypothesis.profile != number:
                continue
            if self._is_settled(hypothesis):
                self._settle(replace(hypothesis, verdict=Verdict.SKIPPED, reason=Reason.SETTLED))
            elif self.left(self._reserve) < self._at_most(EXPERIMENT) / 2:
                self._settle(replace(hypothesis, verdict=Verdict.SKIPPED, reason=Reason.BUDGET_SPENT))
            else:
                self._settle(self._experiment(hypothesis))
                self._keep_fastest()
        return any(h.accepted for h in self.state.hypotheses if h.profile == number)

    def _is_settled(self, hypothesis: Hypothesis) -> bool:
        """Whether another experiment has already confirmed this cause, or chosen a value for what this one sets.

        The next profile shows what is left to gain with that value.
        """
        fields = set(hypothesis.intervention.config) if hypothesis.intervention else set()
        chosen = {
            name for h in self.state.hypotheses if h.alone and h.accepted and h.intervention for name in h.intervention.config
        }
        if hypothesis.is_knob or hypothesis.alone:
            return False
        if fields & chosen:
            return True
        others = [h for h in self.state.hypotheses if h.cause == hypothesis.cause and h.id != hypothesis.id]
        bounded = [h for h in others if h.verdict is Verdict.CONFIRMED and h.intervention and h.intervention.upper_bound]
        return any(h.accepted for h in others) or bool(bounded)

    def _keep_fastest(self) -> None:
        """Of hypotheses that were tested alone and set the same field of a config, only the fastest stays accepted."""
        chosen: set[str] = set()
        alone = [h for h in self.state.hypotheses if h.alone and h.accepted]
        for hypothesis in sorted(alone, key=lambda h: -(h.measured or 0)):
            fields = set(hypothesis.intervention.config) if hypothesis.intervention else set()
            if fields & chosen:
                self._settle(replace(hypothesis, accepted=False))
            else:
                chosen |= fields

    def _experiment(self, hypothesis: Hypothesis) -> Hypothesis:
        intervention = hypothesis.intervention
        assert intervention is not None
        self._progress(f"experiment {hypothesis.id}, {hypothesis.cause}: {intervention.title}")
        tested = replace(hypothesis, projected=plan.projected_now(hypothesis, self.state.hypotheses))
        try:
            so_far = [] if hypothesis.alone else self.accepted
            before = self._variant(together(so_far), "before")
            after = self._variant(together([*so_far, intervention]), "after")
        except Overlap:
            return replace(tested, verdict=Verdict.INCONCLUSIVE, reason=Reason.OVERLAP)
        tested = self._replayed(tested, so_far)
        folder = self.run.path / "experiments" / f"{hypothesis.id:02d}-{hypothesis.cause.replace(' ', '-')}"
        applied = self.run.path / "applied" / f"{hypothesis.id:02d}"
        applied.mkdir(parents=True, exist_ok=True)
        after = replace(after, environment={**after.environment, APPLIED: str(applied.resolve())})
        report = self._compare([before, after], folder, min(self._at_most(EXPERIMENT), self.left(self._reserve)))
        tested = replace(tested, experiment=str(folder.relative_to(self.run.path)))
        return judged(tested, report, {path.name for path in applied.iterdir()})

    def _replayed(self, hypothesis: Hypothesis, so_far: Sequence[Intervention]) -> Hypothesis:
        """A rewrite of a function gains what recorded calls of it say, rather than what its share suggests."""
        finding, intervention, evidence = hypothesis.finding, hypothesis.intervention, self._evidence.get(hypothesis.profile)
        if not isinstance(self.variant.target, Script) or not finding or not intervention or not evidence:
            return hypothesis
        folder = self.run.path / "replays" / f"{hypothesis.id:02d}"
        first = evidence.run.lines[0].sample  # imports and all
        seconds, settings = self._at_most(REPLAY) + 1.5e-9 * (first.start + first.wall), self.settings
        variant, sources = self.variant, self.sources
        replayed = replay(
            variant, finding, intervention, so_far, sources, evidence, folder, seconds, settings.scratch, settings.rerun
        )
        if replayed is None:
            return hypothesis
        return replace(hypothesis, replay=replayed, projected=projected(replayed, finding, evidence))

    def _compare(self, variants: Sequence[Variant], folder: Path, budget: float) -> ComparisonReport:
        if folder.exists():  # cut off in the middle: once more
            shutil.rmtree(folder)
        folder.parent.mkdir(exist_ok=True)
        schedule = Schedule(blocks=4, round=budget / 4)
        plan = Plan(budget, 0.03, control=False, schedule=schedule, clear=0.03)
        scratch, rerun = self.settings.scratch, self.settings.rerun
        run = compare.run_interleaved(Verb.COMPARE, variants, plan, folder, scratch=scratch, rerun=rerun, in_time=True)
        if run.header.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return compare.report_of(run)

    # -- the end --

    def total(self) -> None:
        """All that was accepted, together, against the original: what cannot change learning alone, and everything."""
        if not self.accepted or self.state.total:
            return
        safe = [i for i in self.accepted if not i.changes_learning]
        variants = [self._variant(AS_IS, ORIGINAL)]
        if safe and len(safe) < len(self.accepted):
            variants.append(self._variant(together(safe), SAFE))
        variants.append(self._variant(together(self.accepted), EVERYTHING))
        self._progress("all accepted changes together, against the original")
        folder = self.run.path / "experiments" / "total"
        report = self._compare(variants, folder, max(self._at_most(TOTAL), 0.12 * self.settings.budget))
        gains = {row.b: Gain(row.ratio, row.ci95) for row in report.comparisons if row.ratio and row.ci95}
        everything = gains.get(EVERYTHING)
        same_learning = everything if len(safe) == len(self.accepted) else gains.get(SAFE)
        self._save(total=Total(everything, same_learning, report.identity.error))

    def check_learning(self) -> None:
        """The same losses for what cannot change learning; returns over seeds for what can."""
        if not self.accepted or self.state.learning:
            return
        folder = self.run.path / "learning"
        check = LearningCheck()
        original = self._variant(AS_IS, ORIGINAL)
        safe = [i for i in self.accepted if not i.changes_learning]
        until = self._began + BEYOND[0] * self.settings.budget + BEYOND[1]
        try:
            losses = self.state.losses
            if safe and not losses:
                self._progress("the first losses, before and after")
                changed = self._variant(together(safe), "changed")
                losses = learning.same_losses(
                    original,
                    changed,
                    folder,
                    self.settings.scratch,
                    seconds=min(60.0, max(10.0, self.left() / 4)),
                    rerun=self.settings.rerun,
                    patience=max(STARTING[0], 0.05 * self.settings.budget),
                    until=until,
                )
                self._save(losses=losses)
            check = replace(check, losses=losses)
            repeatable = losses is None or losses.verdict is LearningVerdict.SAME_LOSSES
            if len(safe) < len(self.accepted) or not repeatable:
                gain = self.state.total.everything if self.state.total else None
                returns = learning.check_returns(
                    self._unshortened(AS_IS, ORIGINAL),
                    self._unshortened(together(self.accepted), "changed"),
                    folder,
                    self.settings.seeds,
                    seconds=max(LEAST_LEARNING, self.left() * 0.9),
                    speedup=gain.ratio if gain else 1.0,
                    on_run=self._progress,
                    scratch=self.settings.scratch,
                    rerun=self.settings.rerun,
                    patience=max(STARTING[0], 0.05 * self.settings.budget),
                    until=until,
                )
                check = replace(check, returns=returns)
        except (TargetFailed, RecordError) as error:
            check = replace(check, error=str(error))
        self._save(learning=check)


def investigate(
    run: Run,
    variant: Variant,
    settings: Settings,
    on_progress: OnProgress = lambda *_: None,
    on_plan: OnPlan = lambda _: None,
) -> Run:
    """Conduct it; what goes wrong, or Ctrl-C, ends it and keeps what was found."""
    investigation = Investigation(run, variant, settings, on_progress, on_plan)

    def finish(status: Status, error: str | None = None) -> None:
        run.finish(status, error=error, investigation=replace(investigation.state, spent=investigation.spent))

    try:
        investigation.conduct()
        finish(Status.DONE)
    except KeyboardInterrupt:
        finish(Status.INTERRUPTED)
    except TargetFailed as error:
        finish(Status.FAILED, str(error))
    return run
