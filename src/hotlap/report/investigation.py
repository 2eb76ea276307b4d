"""What the report of an investigation shows: the answer first, then what was tried, and how to repeat it."""

import shlex
from typing import Any

from hotlap.core import units
from hotlap.experiment import learning
from hotlap.investigate.conduct import CONFIRMED, REFUTED, SETTLED, SKIPPED
from hotlap.record.run import Run, load, strict_reading
from hotlap.record.summary import document as profile_document
from hotlap.report.findings import gain
from hotlap.report.sections import Bar, Cell, Notes, Section, Table


def document(run: Run) -> dict[str, Any]:
    """All that an investigation found, as plain data."""
    with strict_reading(run.path):
        header = run.header
        total = header.get("total") or {"sides": {}, "error": None}
        sides = total["sides"]
        best = sides.get("all accepted")
        accepted = [h for h in header["hypotheses"] if h["accepted"]]
        safe = sides.get("without changes to learning")
        if safe is None and best and not any(h["intervention"]["changes_learning"] for h in accepted):
            safe = best
        return {
            "schema": "hotlap.investigate/1",
            **run.facts(),
            "command": header["command"],
            "hypotheses": [_row(h) for h in header["hypotheses"]],
            "accepted": [h["intervention"]["title"] for h in accepted],
            "speedup": {"ratio": best["ratio"], "ci95": best["ci95"]} if best else None,
            "speedup_same_learning": safe,
            "learning": header.get("learning"),
            "unsafe": header.get("unsafe", []),
            "before": _stages(run, "profile-1"),
            "after": _stages(run, header.get("after") or ""),
            "spent": header.get("spent", 0.0),
            "budget": header["config"]["settings"]["budget"],
            "dry": header["config"]["settings"]["dry"],
            "total_error": total["error"],
        }


def _row(h: dict[str, Any]) -> dict[str, Any]:
    finding, intervention = h["finding"] or {}, h["intervention"]
    return {
        "id": h["id"],
        "cause": h["cause"],
        "title": finding.get("title"),
        "evidence": finding.get("evidence", []),
        "where": finding.get("where"),
        "fix": finding.get("fix"),
        "intervention": intervention["title"] if intervention else None,
        "bound": bool(intervention and intervention["bound"]),
        "changes_learning": bool(intervention and intervention["changes_learning"]),
        "projected": h["projected"],
        "measured": {"ratio": h["measured"], "ci95": h["ci95"]} if h["measured"] else None,
        "verdict": h["verdict"] or "planned",
        "reason": h["reason"],
        "accepted": h["accepted"],
        "experiment": h["experiment"],
    }


def _stages(run: Run, name: str) -> dict[str, Any] | None:
    folder = run.path / name
    if not name or not (folder / "run.json").exists():
        return None
    doc = profile_document(load(folder))
    return {"stages": doc["stages"], "throughput": doc["throughput"]}


def headline(doc: dict[str, Any]) -> str:
    return f"investigate {doc['command']} · {doc['status']}"


def sections(doc: dict[str, Any]) -> list[Section]:
    with strict_reading(doc["run"]):
        built: list[Section] = [Notes(summary(doc), kind="result")]
        if warnings := _warnings(doc):
            built.append(Notes(warnings))
        if doc["hypotheses"]:
            built.append(_hypotheses(doc))
            built += [_why(h) for h in _causes(doc)]
        if refuted := [h for h in doc["hypotheses"] if h["verdict"] == REFUTED]:
            built.append(_refuted(refuted))
        if doc["before"] and doc["before"]["stages"]:
            built.append(_before_after(doc))
        if doc["learning"]:
            built.append(_learning(doc["learning"]))
        built += [_recipe(doc), _monitoring(doc)]
    return built


def summary(doc: dict[str, Any]) -> list[str]:
    """The answer, in plain words."""
    confirmed = [h for h in doc["hypotheses"] if h["verdict"] == CONFIRMED]
    if doc["dry"]:
        planned = [h for h in doc["hypotheses"] if h["verdict"] == "planned"]
        return [f"The plan: {len(planned)} experiments. Nothing was changed, and nothing but a profile was run."]
    if doc["unsafe"]:
        return ["The script was profiled and not run again: it may not be safe to. --rerun says that it is.", *doc["unsafe"]]
    lines = []
    if confirmed:
        causes = list(dict.fromkeys(h["title"] or h["cause"] for h in confirmed))
        lines.append(f"It is slow because {'; because '.join(causes)}.")
    elif any(h["verdict"] == "planned" for h in doc["hypotheses"]):
        lines.append("The investigation is not over: hotlap investigate --resume goes on.")
    elif doc["hypotheses"]:
        lines.append("None of the suspected causes was confirmed: nothing was found that makes this run slow.")
    else:
        lines.append("Nothing that hotlap knows slows this run down.")
    if doc["speedup"]:
        lines.append(
            f"All accepted changes together make it {_interval(doc['speedup'])} as fast, measured against the original."
        )
        safe, losses = doc["speedup_same_learning"], (doc["learning"] or {}).get("safe")
        if safe and safe != doc["speedup"] and losses and losses["verdict"] == learning.SAME:
            lines.append(f"Those that cannot change what is learned make it {_interval(safe)} as fast.")
        lines += _learning_lines(doc["learning"])
    bounds = [h for h in confirmed if h["bound"]]
    lines += [
        f"At most {_interval(h['measured'])} can come from {h['cause']} ({h['where']}): {h['fix']}. That is yours to write."
        for h in bounds
    ]
    return lines


def _interval(found: dict[str, Any]) -> str:
    low, high = found["ci95"]
    return f"{found['ratio']:.2f}x (95% {low:.2f}-{high:.2f})"


def _learning_lines(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    lines = []
    if safe := found["safe"]:
        if safe["verdict"] == learning.SAME:
            lines.append(f"They compute the same: {safe['compared']} losses agree (to {safe['difference']:.1g} of their size).")
        else:
            lines.append(f"Losses before and after: {safe['verdict']} ({safe['compared']} compared).")
    if every := found["all"]:
        words = {
            learning.AS_GOOD: "learns no worse",
            learning.WORSE: "LEARNS WORSE",
            learning.UNCLEAR: "may or may not learn as well: too little was learned, or too few seeds, to tell",
        }[every["verdict"]]
        number = ""
        if every["ci95"]:
            low, high = every["ci95"]
            number = (
                f" (return {every['difference']:+.3g}, 95% {low:+.3g} to {high:+.3g}, allowed {-every['margin']:.3g}, "
                f"{every['seeds']} seeds, {units.count(every['steps'])} steps each)"
            )
        lines.append(f"With all changes it {words}{number}.")
    return [*lines, found["words"]] if found["words"] else lines


def _warnings(doc: dict[str, Any]) -> list[str]:
    found = (
        [f"The investigation was {doc['status']}: this is what was found until then."]
        if doc["status"] in ("interrupted", "killed")
        else []
    )
    if doc["error"]:
        found.append(doc["error"])
    if doc["total_error"]:
        found.append(f"All changes together: {doc['total_error']}")
    return found


def _hypotheses(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for h in doc["hypotheses"]:
        if h["verdict"] == SKIPPED and h["reason"] == SETTLED:
            continue
        projected = f"{h['projected']['speedup']:.2f}x" if h["projected"] and h["projected"]["speedup"] > 1 else "-"
        measured = gain({"speedup": h["measured"]["ratio"], "ci95": h["measured"]["ci95"]}) if h["measured"] else "-"
        what = "at most: " * h["bound"] + (h["intervention"] or h["reason"] or (h["evidence"] or [""])[0])
        if h["changes_learning"]:
            what += " (may change learning)"
        rows.append((h["cause"], projected, measured, h["verdict"], what))
    note = (
        "projected from shares of the time; measured in turns with fresh processes, 95% intervals; at most: with the cause gone"
    )
    return Table("Hypotheses", ("cause", ">projected", ">measured", "verdict", "experiment"), rows, note)


def _causes(doc: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per confirmed cause."""
    found: dict[str, dict[str, Any]] = {}
    for h in doc["hypotheses"]:
        if h["verdict"] == CONFIRMED and h["title"]:
            found.setdefault(h["cause"], h)
    return list(found.values())


def _why(h: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [("evidence", line) for line in h["evidence"]]
    if h["where"]:
        rows.append(("where", h["where"]))
    rows.append(("fix", h["fix"] or ""))
    rows.append(("proof", f"{h['intervention']}: {_interval(h['measured'])}; {h['experiment']}"))
    return Table(f"{h['cause']}: {h['title']}", ("", ""), rows)


def _refuted(found: list[dict[str, Any]]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (h["cause"], _interval(h["measured"]) if h["measured"] else "-", h["intervention"] or "") for h in found
    ]
    return Table("Refuted: it is not this", ("cause", ">measured", "experiment"), rows)


def _before_after(doc: dict[str, Any]) -> Table:
    before, after = doc["before"]["stages"], (doc["after"] or {"stages": {}})["stages"]
    rows: list[tuple[Cell, ...]] = []
    for path in dict.fromkeys([*before, *after]):
        a, b = (table.get(path, {}).get("share", 0.0) for table in (before, after))
        if max(a, b) < 0.005:
            continue
        name = "  " * path.count("/") + path.rpartition("/")[2]
        rows.append((name, units.share(a), Bar(a), *((units.share(b), Bar(b)) if after else ())))
    columns = ("stage", ">before", "", *((">after", "") if after else ()))
    return Table("Where the time goes", columns, rows, "exclusive shares of each run's own time")


def _learning(found: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    if safe := found["safe"]:
        rows.append(("losses", f"{safe['verdict']}: {safe['compared']} compared"))
    if every := found["all"]:
        rows.append(("returns", every["verdict"]))
        for name, scores in zip(("original", "changed"), every["scores"], strict=True):
            rows.append((name, ", ".join("-" if s is None else f"{s:.3g}" for s in scores)))
        if every["time_to_level"]:
            times = [[t for t in row if t is not None] for row in every["time_to_level"]]
            shown = [
                f"{len(t)} of {every['seeds']} seeds" + (f", {units.seconds(sum(t) / len(t))}" if t else "") for t in times
            ]
            sooner = f"; {_interval(every['time_ratio'])} as soon" if every.get("time_ratio") else ""
            rows.append((f"to {every['level']:.3g}", f"original {shown[0]}; changed {shown[1]}{sooner}"))
    if found["words"]:
        rows.append(("note", found["words"]))
    return Table(
        "Does it learn as well?", ("", ""), rows, "mean return of the last quarter of equally many steps, seed by seed"
    )


def _recipe(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        ("again", f"hotlap investigate {shlex.quote(doc['command'])} --budget {doc['budget']:.0f}s")
    ]
    rows += [
        (f"experiment {h['id']}", f"hotlap report {doc['run']}/{h['experiment']}") for h in doc["hypotheses"] if h["experiment"]
    ]
    if doc["accepted"]:
        rows.append(("take it", f"hotlap investigate --resume {doc['run']} --apply"))
    rows.append(("time", f"{units.seconds(doc['spent'])} of {units.seconds(doc['budget'])}"))
    return Table("To repeat it", ("", ""), rows)


def _monitoring(doc: dict[str, Any]) -> Table:
    """Limits that a later profile can be held to."""
    rates = (doc["after"] or doc["before"] or {"throughput": {}})["throughput"]
    rate = rates.get("env_steps_per_s") or 0.0
    rows: list[tuple[Cell, ...]] = []
    if rate:
        target = shlex.quote(doc["command"])
        rows.append(("throughput", f'hotlap profile {target} --target "env_steps_per_s>{0.9 * rate:.0f}"'))
    rows.append(("in CI", "hotlap gate latest --baseline baseline.json --max-slowdown 5%"))
    return Table("To keep it fast", ("", ""), rows)
