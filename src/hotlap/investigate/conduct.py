"""Investigation: profile, findings, experiments, a verdict on each, and a fix that is proven.

Each hypothesis is one finding and one intervention that tests it, raced against the target as it is so far (`compare.py`). What
is confirmed is accepted, and the target is profiled again, until nothing worth a try is left or the time is spent. Then all
that was accepted is raced together against the original, and what it learns is checked. Everything is in the record at once,
so that an investigation that was interrupted goes on where it was.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotlap.causes import findings
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedies import Context, remedies
from hotlap.core import machine
from hotlap.core.errors import RecordError, TargetFailed, UsageError
from hotlap.experiment import compare, learning
from hotlap.experiment.interleave import Options as Turns
from hotlap.experiment.interleave import Side
from hotlap.interventions.changing import TOOK
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Overlap, apply, diff, to_original
from hotlap.interventions.intervention import Intervention, patched, side_of, together
from hotlap.interventions.knobs import Knob, knobs_of, knobs_of_system, parse
from hotlap.investigate import safety
from hotlap.launch.system import Options
from hotlap.record.finding import Finding, Saved
from hotlap.record.run import Run, load, this_process
from hotlap.target import words as targets

CONFIRMED, REFUTED, INCONCLUSIVE = "confirmed", "refuted", "inconclusive"
NO_BUG, SKIPPED = "no bug", "skipped"
SPENT = "the budget was spent"
SETTLED = "another experiment for this cause had succeeded"
WORTH = 1.03  # a gain below this is not worth a change
SEEDS = 3
PROFILE = Options(seconds=8.0, period=0.01, rest=0.0)  # nothing is left out: rare and long work counts too
EXPERIMENT = 45.0  # seconds that one experiment may take
MOST_PROFILES = 5
LAST = 99  # the number of the profile that shows the end

OnProgress = Callable[[str, float], None]  # (what goes on, seconds spent)
OnPlan = Callable[[list[dict[str, Any]]], None]  # (hypotheses that will be tried)


@dataclass(frozen=True)
class Settings:
    budget: float = 600.0
    knobs: tuple[str, ...] = ()  # as the user names them
    rerun: bool = False  # the user says that the script may be run again and again
    allow_learning: bool = False
    seeds: int = SEEDS
    dry: bool = False


class Investigation:
    """One target, from the first profile to the report. Its state is the record's header."""

    def __init__(
        self,
        run: Run,
        side: Side,
        settings: Settings,
        on_progress: OnProgress = lambda *_: None,
        on_plan: OnPlan = lambda _: None,
    ) -> None:
        self.run, self.side, self.settings = run, side, settings
        self._tell, self._list = on_progress, on_plan
        self._began = time.monotonic() - run.header.get("spent", 0.0)
        self.paths: dict[str, str] = {}  # of the user's files, by the names that profiles give them
        self.texts: dict[str, str] = {}
        self._knobs: list[Knob] | None = None
        self._read_sources()

    # -- state --

    @property
    def hypotheses(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.run.header["hypotheses"]
        return found

    @property
    def accepted(self) -> list[Intervention]:
        return [Intervention.from_facts(h["intervention"]) for h in self.hypotheses if h["accepted"]]

    @property
    def spent(self) -> float:
        return float(time.monotonic() - self._began)

    def left(self, reserve: float = 0.0) -> float:
        return self.settings.budget - reserve - self.spent

    def _save(self, **fields: Any) -> None:
        self.run.update(spent=self.spent, hypotheses=self.hypotheses, **fields)

    def _progress(self, what: str) -> None:
        self._tell(what, self.spent)

    def _read_sources(self) -> None:
        """The user's files as they are on disk, by the names that the profile gave them."""
        for file in sorted(self.run.path.glob("profile-*/run.json")):
            codes: dict[str, Code] = {}
            with suppress(RecordError):  # a profile that was cut off
                codes = Evidence(load(file.parent)).codes
            for name, code in codes.items():
                path = next((p for p in self._places(name) if p.is_file()), None)
                if path is None or name in self.texts:
                    continue
                self.paths[name], self.texts[name] = str(path.resolve()), path.read_text()
                if file.parent.name == "profile-1" and self.texts[name] != code.text:
                    raise UsageError(f"{name} has changed since it was profiled: investigate it anew")

    def _places(self, name: str) -> list[Path]:
        beside = Path(self.side.script).parent if self.side.script and not self.side.module else Path()
        return [beside / name, beside / Path(name).name, Path(name)]

    # -- the course of it --

    def conduct(self) -> None:
        """Everything, in order; what the record already has is not done again."""
        number = 0
        while number < MOST_PROFILES:
            number += 1
            try:
                evidence = self.profile(number)
            except TargetFailed:
                if number == 1:
                    raise
                break  # with what was accepted it ends too soon, or fails: the rest can still be measured
            if not self._may_go_on(evidence):
                return
            planned = self.plan(evidence, number)
            if self.settings.dry:
                return
            if not self.experiments(number) or not planned or self.left(self._reserve) < EXPERIMENT:
                break
        self.total()
        self.check_learning()
        if self.accepted and not self.run.header.get("after"):
            with suppress(TargetFailed):  # it may be too fast now to be profiled before it ends
                self.profile(LAST)
                self._save(after=f"profile-{LAST}")

    @property
    def _reserve(self) -> float:
        """Time that the last steps need."""
        return 0.35 * self.settings.budget

    def _may_go_on(self, evidence: Evidence) -> bool:
        """Whether the target may be run again; if not, the record says why."""
        if not evidence.samples:
            raise TargetFailed("nothing could be measured: see the profile in the record")
        if self.side.system or self.settings.rerun:
            return True
        codes = {name: Code(text) for name, text in self.texts.items()}
        if self.side.script and not self.side.module:
            codes[self.side.target] = Code(Path(self.side.script).read_text(errors="replace"))
        reasons = safety.reasons(codes) if codes else ["its code could not be read"]
        self._save(unsafe=reasons)
        if reasons:
            self._knobs = []  # not even --help
            self.plan(evidence, 1)
        return not reasons

    def profile(self, number: int) -> Evidence:
        """The target with all that is accepted so far, profiled."""
        folder = self.run.path / f"profile-{number}"
        if not (folder / "run.json").exists() or load(folder).header["status"] in ("running", "failed", "interrupted"):
            self._progress("profiling" if number == 1 else "profiling again, with what was accepted")
            if folder.exists():
                shutil.rmtree(folder)
            self._run_profile(folder)
            self._read_sources()
        found = load(folder)
        if found.header["status"] == "failed":
            raise TargetFailed(f"{self.side.name} failed: {found.header.get('error')} (its output: {folder}.log)")
        if found.header["status"] == "interrupted":
            raise KeyboardInterrupt
        return Evidence(found)

    def _run_profile(self, folder: Path) -> None:
        from hotlap.launch.script import profile_script

        side = self._side(together(self.accepted), "profiled")
        if side.system:
            from hotlap import systems
            from hotlap.launch.system import profile
            from hotlap.target import flags

            system = systems.load(side.system, side.algorithm)
            profile(system, flags.checked(flags.config_from(system, side.config)), Options(seconds=8.0), out=folder)
            return
        assert side.script is not None
        log = Path(f"{folder}.log")
        profile_script(side.script, list(side.arguments), PROFILE, side.module, folder, environment=side.environment, log=log)

    def _side(self, intervention: Intervention, name: str) -> Side:
        return side_of(self.side, intervention, self.texts, self.paths, self.run.path / "texts", name)

    # -- hypotheses --

    def plan(self, evidence: Evidence, number: int) -> list[dict[str, Any]]:
        """What to try next, the largest expected gain first: added to the record, and returned."""
        if (planned := self.run.header.get("planned", {}).get(str(number))) is not None:
            return [h for h in self.hypotheses if h["id"] in planned]
        context = Context(evidence, evidence.codes, self._flags(evidence))
        new: list[dict[str, Any]] = []
        tried = {(h["cause"], h["intervention"]["title"]) for h in self.hypotheses if h["intervention"]}
        found = findings(evidence)
        for finding in found:
            fresh = [one for one in self._testable(context, finding) if (finding.cause, one.title) not in tried]
            new += [self._hypothesis(finding.cause, finding, one, number) for one in fresh]
        if number == 1:
            new += [self._knob_hypothesis(text, value) for text in self.settings.knobs for value in parse(text)[2]]
        untestable = [f for f in found if not any(h["cause"] == f.cause for h in (*new, *self.hypotheses))]
        new += [self._hypothesis(finding.cause, finding, None, number) for finding in untestable]
        self.hypotheses.extend(new)
        for i, hypothesis in enumerate(self.hypotheses, 1):
            hypothesis["id"] = i
        planned = {**self.run.header.get("planned", {}), str(number): [h["id"] for h in new]}
        self._save(planned=planned)
        self._list([h for h in new if h["verdict"] is None])
        return new

    def _flags(self, evidence: Evidence) -> list[Knob]:
        if self._knobs is None:
            script, config = self.side.script, self.side.config
            self._knobs = knobs_of(script, self.side.module, evidence.codes) if script else knobs_of_system(config)
        return self._knobs

    def _testable(self, context: Context, finding: Finding) -> list[Intervention]:
        """Interventions for a finding whose edits still fit: a line that was changed already is left alone."""
        if finding.saved.speedup()[0] < WORTH:
            return []
        fitting = []
        for intervention in remedies(context, finding):
            with suppress(Overlap, KeyError, ValueError):
                before = together(self.accepted).edits
                moved = replace(
                    intervention,
                    edits={f: to_original(self.texts[f], before.get(f, ()), e) for f, e in intervention.edits.items()},
                )
                patched(together([*self.accepted, moved]), self.texts)
                fitting.append(moved)
        return fitting

    def _hypothesis(
        self, cause: str, finding: Finding | None, intervention: Intervention | None, number: int
    ) -> dict[str, Any]:
        doc = finding.document() if finding else None
        untestable = finding is not None and finding.saved.value > 0 and intervention is None
        return {
            "id": 0,
            "cause": cause,
            "finding": doc,
            "projected": doc["projected"] if doc else None,
            "intervention": intervention.facts() if intervention else None,
            "profile": number,
            "verdict": None if intervention else INCONCLUSIVE if untestable else NO_BUG,
            "reason": "hotlap knows no experiment for this script" if untestable else None,
            "measured": None,
            "ci95": None,
            "accepted": False,
            "experiment": None,
        }

    def _knob_hypothesis(self, text: str, value: str) -> dict[str, Any]:
        role, knob, _ = parse(text)
        title = f"{role}: {knob.flag} {value}"
        if self.side.system:
            changed = targets.setting(self.run.header["command"], knob.flag, value)
            intervention = Intervention(title, config=changed, learning=True)
        else:
            intervention = Intervention(title, learning=True, **knob.set(value))
        return self._hypothesis(f"knob {role}", None, intervention, 1)

    # -- experiments --

    def experiments(self, number: int) -> bool:
        """Run what is planned and not yet run; whether something was accepted."""
        accepted = False
        for hypothesis in self.hypotheses:
            if hypothesis["verdict"] is not None or hypothesis["profile"] != number:
                accepted = accepted or (hypothesis["accepted"] and hypothesis["profile"] == number)
                continue
            if self._is_settled(hypothesis):
                hypothesis |= {"verdict": SKIPPED, "reason": SETTLED}
                continue
            if self.left(self._reserve) < EXPERIMENT / 2:
                hypothesis |= {"verdict": SKIPPED, "reason": SPENT}
                continue
            self._experiment(hypothesis)
            self._save()
            accepted = accepted or hypothesis["accepted"]
        self._save()
        return accepted

    def _is_settled(self, hypothesis: Mapping[str, Any]) -> bool:
        same = [h for h in self.hypotheses if h["cause"] == hypothesis["cause"] and h is not hypothesis]
        if hypothesis["cause"].startswith("knob"):
            return False
        return any(h["accepted"] or (h["verdict"] == CONFIRMED and h["intervention"]["bound"]) for h in same)

    def _experiment(self, hypothesis: dict[str, Any]) -> None:
        intervention = Intervention.from_facts(hypothesis["intervention"])
        self._progress(f"experiment {hypothesis['id']}, {hypothesis['cause']}: {intervention.title}")
        hypothesis["projected"] = self._projected_now(hypothesis)
        try:
            before = self._side(together(self.accepted), "before")
            after = self._side(together([*self.accepted, intervention]), "after")
        except Overlap as error:
            hypothesis |= {"verdict": INCONCLUSIVE, "reason": str(error)}
            return
        folder = self.run.path / "experiments" / f"{hypothesis['id']:02d}-{hypothesis['cause'].replace(' ', '-')}"
        took = self.run.path / "took" / f"{hypothesis['id']:02d}"
        took.mkdir(parents=True, exist_ok=True)
        after = replace(after, environment={**after.environment, TOOK: str(took.resolve())})
        doc = self._race([before, after], folder, min(EXPERIMENT, self.left(self._reserve)))
        hypothesis["experiment"] = str(folder.relative_to(self.run.path))
        if not doc["ratio"] or not doc["ci95"]:
            hypothesis |= {"verdict": INCONCLUSIVE, "reason": doc["error"] or "too few samples"}
            return
        low, high = doc["ci95"]
        verdict = CONFIRMED if low > 1 and doc["ratio"] >= WORTH else REFUTED if high < WORTH else INCONCLUSIVE
        reason = None if verdict != INCONCLUSIVE else "the interval holds both a gain and none"
        names = intervention.change_names
        if verdict != CONFIRMED and names and not any((took / name).exists() for name in names):
            verdict, reason = INCONCLUSIVE, "the script never came across what was changed"
        accepted = verdict == CONFIRMED and not intervention.bound
        hypothesis |= {
            "verdict": verdict,
            "reason": reason,
            "measured": doc["ratio"],
            "ci95": [low, high],
            "accepted": accepted,
        }

    def _projected_now(self, hypothesis: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was projected, with what was accepted since: what is left to save is a larger share of less time."""
        if not hypothesis["finding"]:
            return None
        since = [h for h in self.hypotheses if h["accepted"] and h["profile"] == hypothesis["profile"]]
        shrunk = math.prod(h["measured"] for h in since)
        projected = hypothesis["finding"]["projected"]
        limits = [
            Saved(share, share, share).speedup()[0]
            for p in (projected["speedup"], *projected["ci95"])
            for share in [(1 - 1 / p) * shrunk]
        ]
        return {"speedup": limits[0], "ci95": limits[1:]}

    def _race(self, sides: Sequence[Side], folder: Path, budget: float) -> dict[str, Any]:
        if folder.exists():  # cut off in the middle: once more
            shutil.rmtree(folder)
        folder.parent.mkdir(exist_ok=True)
        plan = compare.Plan(budget, 0.03, control=False, race=Turns(turns=4, round=budget / 4), clear=0.03)
        found = compare.run_race("compare", sides, plan, folder, lambda what, *_: None)
        if found.header["status"] == "interrupted":
            raise KeyboardInterrupt
        return compare.document(found)

    # -- the end --

    def total(self) -> None:
        """All that was accepted, together, against the original: what cannot change learning alone, and everything."""
        if not self.accepted or self.run.header.get("total"):
            return
        safe = [one for one in self.accepted if not one.learning]
        sides = [self._side(Intervention("as it is"), "original")]
        if safe and len(safe) < len(self.accepted):
            sides.append(self._side(together(safe), "without changes to learning"))
        sides.append(self._side(together(self.accepted), "all accepted"))
        self._progress("all accepted changes together, against the original")
        doc = self._race(sides, self.run.path / "experiments" / "total", max(30.0, 0.12 * self.settings.budget))
        rows = {
            row["b"]: {"ratio": row["ratio"], "ci95": row["ci95"]} for row in doc["comparisons"] if row["ratio"] and row["ci95"]
        }
        self._save(total={"sides": rows, "error": doc["error"]})

    def check_learning(self) -> None:
        """The same losses for what cannot change learning; curves over seeds for what can."""
        if not self.accepted or self.run.header.get("learning"):
            return
        folder = self.run.path / "learning"
        found: dict[str, Any] = {"safe": None, "all": None, "words": None}
        original = self._side(Intervention("as it is"), "original")
        safe = [one for one in self.accepted if not one.learning]
        repeatable = True
        try:
            found["safe"] = self.run.header.get("losses")
            if safe and not found["safe"]:
                self._progress("the first losses, before and after")
                found["safe"] = learning.same_losses(original, self._side(together(safe), "changed"), folder)
                self._save(losses=found["safe"])
            if found["safe"]:
                repeatable = found["safe"]["verdict"] == learning.SAME
            if any(one.learning for one in self.accepted) or not repeatable:
                seconds = max(30.0, self.left() * 0.9)
                total = self.run.header.get("total") or {"sides": {}}
                speedup = (total["sides"].get("all accepted") or {"ratio": 1.0})["ratio"]
                found["all"] = learning.check_returns(
                    original,
                    self._side(together(self.accepted), "changed"),
                    folder,
                    self.settings.seeds,
                    seconds,
                    speedup,
                    self._progress,
                )
        except (TargetFailed, RecordError) as error:
            found["words"] = str(error)
        self._save(learning=found)


def begin(side: Side, command: str, settings: Settings, out: Path | None = None) -> Run:
    """The record of a new investigation. `command` is the target as the user named it."""
    config = {"target": side.facts(), "settings": {**vars(settings), "knobs": list(settings.knobs)}}
    return Run.create(
        "investigate", side.target, config, machine.facts(), out, command=command, hypotheses=[], planned={}, spent=0.0
    )


def investigate(
    run: Run,
    side: Side,
    settings: Settings,
    on_progress: OnProgress = lambda *_: None,
    on_plan: OnPlan = lambda _: None,
) -> Run:
    """Conduct it; what goes wrong, or Ctrl-C, ends it and keeps what was found."""
    investigation = Investigation(run, side, settings, on_progress, on_plan)
    try:
        investigation.conduct()
        run.finish("done", spent=investigation.spent)
    except KeyboardInterrupt:
        run.finish("interrupted", spent=investigation.spent)
    except TargetFailed as error:
        run.finish("failed", error=str(error), spent=investigation.spent)
    return run


def resume(
    path: str, side_of_run: Callable[[str], Side], rerun: bool = False, budget: float | None = None
) -> tuple[Run, Side, Settings]:
    """An investigation that was interrupted, planned only, or refused, to go on with."""
    run = load(path)
    if run.header["verb"] != "investigate":
        raise UsageError(f"{path} is a {run.header['verb']}, not an investigation")
    if run.is_running:
        raise RecordError(f"{path} is still being written by process {run.header['process']['pid']}")
    settings = run.header["config"]["settings"]
    if budget:
        settings["budget"] = budget
        _take_up(run)
    settings |= {"dry": False, "rerun": settings["rerun"] or rerun, "knobs": tuple(settings["knobs"])}
    side = side_of_run(run.header["command"])
    run.header.pop("error", None)
    run.update(status="running", process=this_process())
    return run, side, Settings(**settings)


def _take_up(run: Run) -> None:
    """What was left out for lack of time is to be done, and the end once more if anything was."""
    left_out = [h for h in run.header["hypotheses"] if h["reason"] == SPENT]
    for hypothesis in left_out:
        hypothesis |= {"verdict": None, "reason": None}
    if left_out:
        for field in ("total", "losses", "learning", "after"):
            run.header.pop(field, None)
        shutil.rmtree(run.path / f"profile-{LAST}", ignore_errors=True)


def files_of(run: Run, texts: Mapping[str, str], paths: Mapping[str, str], allow_learning: bool) -> dict[str, str]:
    """What `--apply` writes: a unified diff, an environment file, the arguments to add; whatever there is to write."""
    losses = (run.header.get("learning") or {}).get("safe")
    if losses and losses["verdict"] != learning.SAME and not allow_learning:
        return {}  # what was thought to leave learning alone does not
    chosen = [
        Intervention.from_facts(h["intervention"])
        for h in run.header["hypotheses"]
        if h["accepted"] and (allow_learning or not h["intervention"]["changes_learning"])
    ]
    whole = together(one for one in chosen if one.is_patch)
    found: dict[str, str] = {}
    if rest := [f"{one.title}\n" for one in chosen if not one.is_patch]:
        found["hotlap.todo"] = "Measured and accepted, and yours to write:\n" + "".join(rest)
    names = {file: os.path.relpath(paths[file]) for file in whole.edits}
    patch = "".join(diff(names[file], texts[file], apply(texts[file], edits)) for file, edits in whole.edits.items())
    if patch:
        found["hotlap.patch"] = patch
    if whole.environment:
        found["hotlap.env"] = "".join(f"export {name}={value}\n" for name, value in whole.environment.items())
    if whole.arguments:
        found["hotlap.arguments"] = " ".join(whole.arguments) + "\n"
    if whole.config:
        found["preset.json"] = json.dumps(whole.config, indent=2) + "\n"
    return found
