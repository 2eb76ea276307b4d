"""Records of older versions, brought to the present shape: one function per step, on plain data.

`hotlap.run/1` differs from `/2` in investigations (reasons were sentences, hypotheses and the learning check had other keys)
and in the word for what takes part in a comparison: `sides`, now `variants`. Keys of single fields that were renamed are named
where the field is (`codec.was`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.core.errors import RecordError

_REASONS = {
    "the budget was spent": "budget-spent",
    "another experiment for this cause had succeeded": "settled",
    "hotlap knows no experiment for this script": "no-experiment",
    "too few samples": "too-few-samples",
    "the interval holds both a gain and none": "unclear",
    "the script never came across what was changed": "not-applied",
}


def upgraded(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The content of a `run.json` of any readable version, in the shape of the present one."""
    if document.get("schema") != "hotlap.run/1":
        return document
    try:
        return _from_1(dict(document))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RecordError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _from_1(header: dict[str, Any]) -> dict[str, Any]:
    config = header.get("config")
    if isinstance(config, dict) and "sides" in config:
        plan = dict(config.get("plan") or {})
        if "race" in plan:
            race = dict(plan.pop("race"))
            plan["schedule"] = {**race, "blocks": race.get("turns", 6)}
        header["config"] = {"plan": plan, "variants": config["sides"]}
    with suppress(KeyError):  # evaluations of games without a rating had none
        header["layout"] = str(header["layout"])
    if header.get("verb") == "investigate":
        header.update(_investigation(header))
    return header


def _investigation(header: dict[str, Any]) -> dict[str, Any]:
    learning, total = header.get("learning"), header.get("total")
    rows = (total or {}).get("sides", {})
    changed = any(h["accepted"] and h["intervention"]["changes_learning"] for h in header["hypotheses"])
    everything = rows.get("all accepted")
    return {
        "settings": header["config"]["settings"],
        "hypotheses": [_hypothesis(h) for h in header["hypotheses"]],
        "total": total
        and {
            "everything": everything,
            "same_learning": rows.get("without changes to learning") or (None if changed else everything),
            "error": total.get("error"),
        },
        "learning": learning
        and {"losses": learning.get("safe"), "returns": learning.get("all"), "error": learning.get("words")},
    }


def _hypothesis(h: dict[str, Any]) -> dict[str, Any]:
    hypothesis = dict(h)
    reason = h.get("reason")
    if reason and reason not in _REASONS:
        hypothesis["detail"] = reason
    hypothesis["reason"] = _REASONS.get(reason, "failed") if reason else None
    hypothesis["verdict"] = "no fault" if h["verdict"] == "no bug" else h["verdict"]
    if intervention := h.get("intervention"):
        pairs = zip(intervention["changes"], intervention["options"])
        hypothesis["intervention"] = {
            **intervention,
            "changes": [{"name": name, "options": options} for name, options in pairs],
            "edits": {
                file: [{"first": a, "last": b, "lines": lines} for a, b, lines in edits]
                for file, edits in intervention["files"].items()
            },
        }
    return hypothesis
