"""What reports of a diagnosis show: findings, chosen, ordered and worded."""

from typing import Any

from hotlap.record.run import strict_reading
from hotlap.report.sections import Cell, Notes, Section, Table


def headline(doc: dict[str, Any]) -> str:
    number = len(doc["findings"])
    return f"diagnose {doc['target']} · {number or 'no'} finding{'s' if number != 1 else ''}"


def sections(doc: dict[str, Any]) -> list[Section]:
    with strict_reading(doc["run"]):
        built: list[Section] = [Notes([summary(doc)], kind="result")]
        if doc["warnings"]:
            built.append(Notes(doc["warnings"]))
        if doc["findings"]:
            built.append(_ranking(doc["findings"]))
        built += [finding_table(i, finding) for i, finding in enumerate(doc["findings"], 1)]
    return built


def summary(doc: dict[str, Any]) -> str:
    """The diagnosis in a sentence."""
    found = [finding for finding in doc["findings"] if finding["projected"]["speedup"] > 1]
    if not found:
        return "Nothing that hotlap knows slows this run down." if not doc["findings"] else f"{_sentence(doc['findings'][0])}"
    first = found[0]
    return f"{_sentence(first)} Mending that should make it {gain(first['projected'])} as fast; an experiment would tell."


def _sentence(finding: dict[str, Any]) -> str:
    title = finding["title"]
    return f"{title[0].upper()}{title[1:]}."


def gain(projected: dict[str, Any]) -> str:
    low, high = projected["ci95"]
    return f"{projected['speedup']:.2f}x ({low:.2f}-{high:.2f})"


def _ranking(found: list[dict[str, Any]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for i, finding in enumerate(found, 1):
        projected = gain(finding["projected"]) if finding["projected"]["speedup"] > 1 else "none"
        learning = "may change" if finding["changes_learning"] else "same"
        rows.append((str(i), finding["cause"], projected, learning, finding["where"] or finding["stage"]))
    note = "projected: from shares of the time, not measured; hotlap investigate runs the experiment"
    return Table("Findings", (">", "cause", ">projected", "learning", "where"), rows, note)


def finding_table(number: int, finding: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [("evidence", line) for line in finding["evidence"]]
    if finding["where"]:
        rows.append(("where", finding["where"]))
    rows.append(("fix", finding["fix"]))
    rows.append(("confirm", finding["confirm"]))
    if finding["merged"]:
        rows.append(("explains", ", ".join(finding["merged"])))
    if finding["sources"]:
        rows.append(("met in", ", ".join(finding["sources"])))
    return Table(f"{number}. {finding['cause']}: {finding['title']}", ("", ""), rows)
