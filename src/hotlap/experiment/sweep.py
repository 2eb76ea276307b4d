"""Sweeps: a knob's values raced in turns, and what the curve says."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hotlap.core import stages, stats
from hotlap.core.counts import ENV_STEPS, EPISODES, ITERATIONS, UPDATES
from hotlap.experiment.blocks import Rounds, blocks_of, cost, ending, stage_cost, unit_of
from hotlap.experiment.growth import SUPERLINEAR
from hotlap.experiment.interleave import Turn, read_turns
from hotlap.record.run import Run, strict_reading

KNEE = 0.9  # of the best throughput
LATENCY, PARTLY, LINEAR, CONTENDED = "latency-bound", "partly latency-bound", "work-bound", "contended"
FLAT, LEARNING = "no effect", "learns differently"
MEANING = {
    FLAT: "throughput does not depend on it",
    LATENCY: "a step costs the same however much is in it, so more at once is nearly free",
    PARTLY: "part of the cost does not grow with the knob",
    LINEAR: "cost grows with the work, throughput stays",
    CONTENDED: "more at once is slower: something is fought over (cores, caches, memory)",
}


def document(run: Run) -> dict[str, Any]:
    """What a sweep found, as plain data."""
    with strict_reading(run.path):
        turns = read_turns(run.path)
        sides = run.header["config"]["sides"]
        unit = unit_of(turns)
        points = [_point(turns, side["name"], unit) for side in sides]
        measured = [point for point in points if point["throughput"]]
        found: dict[str, Any] = {
            "schema": "hotlap.sweep/1",
            **run.facts(),
            "unit": unit,
            "knobs": run.header["knobs"],
            "points": points,
            "best": max(measured, key=lambda point: point["throughput"])["name"] if measured else None,
            "scaling": None,
            "growth": growth_over(measured),
            "plan": run.header["config"]["plan"],
            "sides": sides,
        }
        if len(found["knobs"]) == 1:
            found["scaling"] = scaling(measured, found["knobs"][0])
        found["warnings"] = ending(found)
        found["warnings"] += run.header.get("dropped", {}).values()
        rates = {point["work"].get("updates_per_env_step") for point in measured}
        numbers = [rate for rate in rates if rate]
        if numbers and max(numbers) > 1.05 * min(numbers):
            found["warnings"].append("The points make different numbers of updates per env step: throughput only.")
    return found


def _point(turns: Sequence[Turn], name: str, unit: str) -> dict[str, Any]:
    blocks = blocks_of(turns, name)
    rounds = [[np.log(cost(b, unit)) for b in found.values() if cost(b, unit) > 0] for found in blocks.values()]
    rounds = [values for values in rounds if values]
    point: dict[str, Any] = {"name": name, "values": _values(name), "throughput": None, "ci95": None, "work": {}}
    if not rounds:
        return point
    effect = stats.rounds_effect(rounds)
    every = [block for found in blocks.values() for block in found.values()]
    iterations = sum(block["counts"].get(ITERATIONS, 0) for block in every)
    totals = {what: sum(block["counts"].get(what, 0) for block in every) for what in (ENV_STEPS, UPDATES, EPISODES)}
    measured = sum(block["wall"] - block["bare"] for block in every)
    return point | {
        "throughput": float(np.exp(-effect.value)),
        "ci95": [float(np.exp(-effect.high)), float(np.exp(-effect.low))],
        "rounds": effect.rounds,
        "memory": float(np.median([block["rss"] for block in every])),
        "stages": _stages(blocks, unit),
        "seconds_per_iteration": measured / iterations if iterations else None,
        "per_iteration": {what: totals[what] / iterations for what in totals} if iterations else {},
        "work": {
            "updates_per_env_step": totals[UPDATES] / totals[ENV_STEPS] if totals[ENV_STEPS] else None,
            "env_steps_per_episode": totals[ENV_STEPS] / totals[EPISODES] if totals[EPISODES] else None,
        },
    }


def _stages(blocks: Rounds, unit: str) -> dict[str, float]:
    every = [block for found in blocks.values() for block in found.values()]
    paths = {path for block in every for path in block["stages"]}
    return {path: float(np.median([stage_cost(block, path, unit) for block in every])) for path in paths}


def _values(name: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in name.split(", ") if "=" in pair)


def scaling(points: Sequence[dict[str, Any]], knob: str) -> dict[str, Any] | None:
    """How throughput follows a numeric knob: segment by segment, and where more stops paying."""
    try:
        x = [float(point["values"][knob]) for point in points]
    except ValueError:
        return None
    order = np.argsort(x)
    if len(x) < 2 or min(x) <= 0 or len(set(x)) < len(x):
        return None
    chosen = [points[i] for i in order]
    value = np.array(x)[order]
    rate = np.array([point["throughput"] for point in chosen])
    slopes = np.diff(np.log(rate)) / np.diff(np.log(value))
    segments = [
        {"from": float(value[i]), "to": float(value[i + 1]), "slope": float(slope)}
        | _read(chosen[i], chosen[i + 1], float(slope))
        for i, slope in enumerate(slopes)
    ]
    best = float(rate.max())
    knee = next(i for i, r in enumerate(rate) if r >= KNEE * best)
    return {
        "knob": knob,
        "segments": segments,
        "knee": {"value": float(value[knee]), "throughput": float(rate[knee]), "of_best": float(rate[knee] / best)},
        "says": _says(segments),
    }


def _read(a: dict[str, Any], b: dict[str, Any], slope: float) -> dict[str, Any]:
    """What the step from one point to the next says. If it changes how much is learned per step, only collecting is read."""
    rates = [point.get("work", {}).get("updates_per_env_step") for point in (a, b)]
    if None in rates or max(rates) <= 1.05 * min(rates):
        return {"reading": _reading(slope, a, b)}
    steps = [(point["per_iteration"] or {}).get(ENV_STEPS) for point in (a, b)]
    collecting = [sum(cost for path, cost in point["stages"].items() if path.startswith(stages.COLLECT)) for point in (a, b)]
    said = f"{rates[0]:.3g} to {rates[1]:.3g} updates per env step"
    if all(collecting) and steps[0] and steps[1] and steps[0] != steps[1]:
        alone = float(np.log(collecting[0] / collecting[1]) / np.log(steps[1] / steps[0]))
        return {"reading": LEARNING, "learning": said, "collecting": _reading(alone, a, b), "collecting_slope": alone}
    return {"reading": LEARNING, "learning": said}


def _reading(slope: float, a: dict[str, Any], b: dict[str, Any]) -> str:
    if abs(slope) < 0.1:
        steps = [(point.get("per_iteration") or {}).get(ENV_STEPS) for point in (a, b)]
        return FLAT if all(steps) and steps[0] == steps[1] else LINEAR
    return LATENCY if slope > 0.7 else PARTLY if slope > 0.3 else LINEAR if slope > 0 else CONTENDED


def _says(segments: list[dict[str, Any]]) -> list[str]:
    """The segments in words, neighbours that say the same joined."""
    joined: list[dict[str, Any]] = []
    for segment in segments:
        same = joined and all(joined[-1].get(key) == segment.get(key) for key in ("reading", "collecting"))
        if same:
            first, last = (s.get("learning", "").partition(" to ") for s in (joined[-1], segment))
            joined[-1] = {**joined[-1], "to": segment["to"], "learning": f"{first[0]} to {last[2]}"}
        else:
            joined.append(segment)
    return [f"{s['from']:g} to {s['to']:g}: {_in_words(s)}" for s in joined]


def _in_words(segment: dict[str, Any]) -> str:
    if segment["reading"] != LEARNING:
        return f"{segment['reading']}; {MEANING[segment['reading']]}"
    alone = segment.get("collecting")
    return str(segment["learning"]) + (f"; collecting alone is {alone}: {MEANING[alone]}" if alone else "")


# -- how cost grows --


def growth_over(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of a sweep's points: how the time of an iteration grows with the steps, updates and episodes in it."""
    found = []
    for what in (ENV_STEPS, UPDATES, EPISODES):
        pairs = [(p["per_iteration"][what], p["seconds_per_iteration"]) for p in points if p.get("per_iteration", {}).get(what)]
        if len(pairs) >= 3 and max(w for w, _ in pairs) > 1.5 * min(w for w, _ in pairs):
            exponent, interval = stats.power_law([w for w, _ in pairs], [c for _, c in pairs])
            above = exponent > SUPERLINEAR and interval[0] > 1.05
            found.append({"work": what, "exponent": exponent, "ci95": list(interval), "superlinear": above})
    return found
