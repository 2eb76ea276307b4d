"""Scores hotlap's diagnosis on scripts whose cause of slowness is known: `python benchmarks/planted/score.py`.

The scripts beside this file each have one cause planted, or none; the tables (*.toml) say which, and how an expert would fix
it. Each script is profiled and diagnosed as a user would do it; then it is compared with its fixed form in interleaved runs,
which gives the gain that the diagnosis projected. Profiles are kept in --runs; `--again` judges those with the present rules.

The scripts in held_out/, blind/, fresh/ and third/ (`--set`) were written after the rules, by people who had not seen them, and
are scored apart. Those in the last three are whole projects, a folder each; they are copied away before they run, because they
write files.
"""

import argparse
import json
import re
import shutil
import tempfile
import time
import tomllib
from collections import Counter
from contextlib import chdir
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hotlap import causes
from hotlap.core import machine
from hotlap.experiment import compare
from hotlap.launch.options import ProfileOptions
from hotlap.launch.profile import profile_script
from hotlap.record.blocks import Plan, Schedule
from hotlap.record.finding import Finding
from hotlap.record.header import Status, Verb
from hotlap.record.run import load
from hotlap.target.target import Script, Variant

HERE = Path(__file__).parent
SETS = {"planted": HERE, **{name: HERE / name for name in ("held_out", "blind", "fresh", "third")}}
RESULTS = HERE.parent / "results"
ALARM = 1.05  # a projected gain above this on a healthy script is a false positive
NEAR = 0.15  # a projection this close to the measured gain is right, whatever its interval
NARROW = 1.7  # ends of a projection's interval, one divided by the other: at most this says something
console = Console(stderr=True)


@dataclass(frozen=True)
class Case:
    folder: Path
    name: str
    cause: str
    also: list[str] = field(default_factory=list)
    why: str = ""
    arguments: list[str] = field(default_factory=list)
    fix_arguments: list[str] = field(default_factory=list)
    edits: list[list[str]] = field(default_factory=list)  # [file of the project,] old text, new text
    measured: float = 1.0  # by the author, on the author's day; the score measures again

    def script(self, place: Path) -> Path:
        """The script; one that is a project is copied to `place`."""
        project = self.folder / self.name
        if not project.is_dir():
            return project.with_suffix(".py")
        return shutil.copytree(project, place / self.name) / "train.py"

    def fixed(self, place: Path) -> Path:
        script = self.script(place)
        if script.parent == self.folder:
            script = Path(shutil.copy(script, place))
        for *file, old, new in self.edits:
            path = script.parent / file[0] if file else script
            text = path.read_text()
            if text.count(old) != 1:
                raise SystemExit(f"{self.name}: {old!r} must occur once, not {text.count(old)} times")
            path.write_text(text.replace(old, new))
        return script


def cases(folder: Path, only: list[str]) -> list[Case]:
    tables = [tomllib.loads(path.read_text()) for path in sorted(folder.glob("*.toml"))]
    found = [Case(folder, name, **row) for table in tables for name, row in table.items()]
    return [case for case in found if not only or any(word in (case.name, case.cause) for word in only)]


def profile(case: Case, runs: Path, again: bool) -> tuple[list[Finding], float]:
    """The findings, and the seconds that it took to get them."""
    folder = runs / case.name
    if not (again and (folder / "run.json").exists()):
        if folder.exists():
            shutil.rmtree(folder)
        options = ProfileOptions(seconds=8.0, period=0.01, pause=0.0)
        with tempfile.TemporaryDirectory() as place:
            path = case.script(Path(place))
            script = Script(str(path), False, tuple(case.arguments))
            with chdir(place if path.parent == case.folder else path.parent):  # its logs and checkpoints go with it
                profile_script(Variant(case.name, script), options, folder.absolute(), quiet=True)
    run, began = load(folder), time.perf_counter()
    if run.header.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    findings = list(causes.diagnose(run).findings)
    spent = time.perf_counter() - began
    first, last = datetime.fromisoformat(run.header.created), datetime.fromisoformat(run.header.finished or run.header.created)
    return findings, spent + (last - first).total_seconds()


def measure(case: Case, budget: float) -> tuple[float, float, float] | None:
    """How many times faster the fixed script is, with its interval; None if there is nothing to fix."""
    if not case.edits and not case.fix_arguments:
        return None
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        planted, fixed = at_home(case.script(Path(first))), at_home(case.fixed(Path(second)))
        variants = [
            Variant("planted", Script(str(planted), arguments=tuple(case.arguments))),
            Variant("fixed", Script(str(fixed), arguments=tuple(case.fix_arguments or case.arguments))),
        ]
        plan = Plan(budget, 0.04, control=False, schedule=Schedule(blocks=4, round=budget / 3), clear=0.05)
        run = compare.run_interleaved(Verb.COMPARE, variants, plan, Path(first) / "comparison", in_time=True)
        if run.header.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        report = compare.report_of(run)
    if not report.ratio or not report.ci95:
        console.print(f"{case.name}: {report.identity.error}")
        return None
    return report.ratio, *report.ci95


def at_home(script: Path) -> Path:
    """A project's script, told to run in its own folder: both variants of a comparison share one working directory."""
    if script.name == "train.py":
        text = script.read_text()
        future = re.search(r"^from __future__ .*\n", text, re.MULTILINE)
        place = future.end() if future else 0
        script.write_text(f"{text[:place]}import os; os.chdir({str(script.parent)!r})\n{text[place:]}")
    return script


def judge(case: Case, findings: list[Finding], gain: tuple[float, float, float] | None) -> dict[str, Any]:
    names = [finding.cause for finding in findings]
    right = {case.cause, *case.also}
    row: dict[str, Any] = {
        "script": case.name,
        "cause": case.cause,
        "named": names[:3],
        "first": bool(names) and names[0] in right,
        "top3": bool(right & set(names[:3])),
        "projected": None,
        "measured": gain,
        "projection_right": None,
        "alarms": [f.cause for f in findings if f.projected.speedup > ALARM] if not case.cause else [],
    }
    mine = next((finding for finding in findings if finding.cause in right), None)
    if gain and not mine:
        row |= {"projection_right": False, "projection_near": False, "projection_inside": False}
    elif mine and gain:
        projected, (low, high) = mine.projected.speedup, mine.projected.ci95
        row["projected"] = [projected, low, high]
        near = abs(projected / gain[0] - 1) <= NEAR
        row["projection_right"] = near or (low <= gain[0] <= high)
        row["projection_near"] = near
        row["projection_inside"] = low <= gain[0] <= high and high / low <= NARROW
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    planted = [row for row in rows if row["cause"]]
    healthy = [row for row in rows if not row["cause"]]
    judged = [row for row in planted if row["projection_right"] is not None]
    wrong = Counter((row["cause"], row["named"][0] if row["named"] else "nothing") for row in planted if not row["first"])
    return {
        "planted": len(planted),
        "causes": len({row["cause"] for row in planted}),
        "named_first": sum(row["first"] for row in planted),
        "named_in_top_3": sum(row["top3"] for row in planted),
        "healthy": len(healthy),
        "false_alarms": sum(bool(row["alarms"]) for row in healthy),
        "projections": len(judged),
        "projections_right": sum(row["projection_right"] for row in judged),
        "projections_near": sum(row["projection_near"] for row in judged),
        "projections_inside_narrow": sum(row.get("projection_inside", False) for row in judged),
        "median_seconds": sorted(row["seconds"] for row in rows)[len(rows) // 2] if rows else None,
        "confused": [[cause, named, number] for (cause, named), number in wrong.most_common()],
    }


def show(rows: list[dict[str, Any]], totals: dict[str, Any]) -> None:
    table = Table(box=None)
    for column in ("script", "planted", "named", "projected", "measured", ""):
        table.add_column(column)
    for row in rows:
        projected = "{:.2f}x ({:.2f}-{:.2f})".format(*row["projected"]) if row["projected"] else ""
        measured = "{:.2f}x ({:.2f}-{:.2f})".format(*row["measured"]) if row["measured"] else ""
        fine = row["first"] if row["cause"] else not row["alarms"]
        verdict = "ok" if fine else "top 3" if row["top3"] else "ALARM" if row["alarms"] else "MISSED"
        if row["projection_right"] is False:
            verdict += ", projection off"
        table.add_row(row["script"], row["cause"] or "healthy", ", ".join(row["named"]) or "-", projected, measured, verdict)
    wide = Console(width=200)
    wide.print(table)
    t = totals
    wide.print(f"named first {t['named_first']} of {t['planted']}, in the top 3 {t['named_in_top_3']} ({t['causes']} causes)")
    wide.print(f"false positives on {t['false_alarms']} of {t['healthy']} healthy scripts")
    right, near = f"projections right {t['projections_right']} of {t['projections']}", t["projections_near"]
    inside = f"inside an interval no wider than {NARROW} {t['projections_inside_narrow']}"
    wide.print(f"{right}, within {NEAR:.0%} of the measured gain {near}, {inside}")
    for cause, named, number in t["confused"]:
        wide.print(f"  {cause} was called {named}: {number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="scripts or causes")
    parser.add_argument("--set", choices=tuple(SETS), default="planted", help="which scripts")
    parser.add_argument("--runs", type=Path, default=Path(".hotlap") / "score", help="where profiles are kept")
    parser.add_argument("--again", action="store_true", help="judge the profiles that are there, make only those that are not")
    parser.add_argument("--no-gains", action="store_true", help="do not measure gains; take the last ones measured")
    parser.add_argument("--budget", type=float, default=24.0, help="seconds for measuring a gain")
    args = parser.parse_args()
    folder = SETS[args.set]
    name = "score" if args.set == "planted" else f"score_{args.set}"
    results = RESULTS / f"{name}.json"
    last = json.loads(results.read_text())["rows"] if results.exists() else []
    known = {row["script"]: row["measured"] for row in last}
    rows, chosen = [], cases(folder, args.only)
    known_cases = {case.name for case in cases(folder, [])}
    for number, case in enumerate(chosen, 1):
        console.print(f"[{number}/{len(chosen)}] {case.name} ({case.cause or 'healthy'})", highlight=False)
        findings, seconds = profile(case, args.runs, args.again)
        gain = known.get(case.name) if args.no_gains else measure(case, args.budget)
        rows.append(judge(case, findings, gain) | {"seconds": seconds})
        done = {row["script"] for row in rows}
        others = [row for row in last if row["script"] in known_cases - done]
        every = sorted([*rows, *others], key=lambda row: str(row["script"]))
        command = "python benchmarks/planted/score.py" + f" --set {args.set}" * (args.set != "planted")
        kept = {"command": command, "machine": machine.describe(), "summary": summary(every), "rows": every}
        results.write_text(json.dumps(kept, indent=1) + "\n")
    show(rows, summary(rows))


if __name__ == "__main__":
    main()
