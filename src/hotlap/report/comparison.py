"""What reports of comparisons, sweeps, gates and networks show: their documents' numbers, chosen, ordered and worded."""

from typing import Any

from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, EPISODES, ITERATIONS, UPDATES, WINDOWS
from hotlap.experiment.compare import SAME
from hotlap.record.run import strict_reading
from hotlap.report.sections import Cell, Notes, Plot, Section, Table, growth_table

WORDS = {name: name.replace("_", " ") for name in (ENV_STEPS, UPDATES, EPISODES, ITERATIONS, WINDOWS)}


def headline(doc: dict[str, Any]) -> str:
    if doc["verb"] == "sweep":
        over = f"over {', '.join(doc['knobs'])}" if doc.get("knobs") else "as work grows"
        return f"sweep {doc['target']} {over} · {doc['status']}"
    return f"{doc['verb']} {doc['target']} · {doc['status']}"


def sections(doc: dict[str, Any]) -> list[Section]:
    with strict_reading(doc["run"]):
        return _sweep_sections(doc) if doc["verb"] == "sweep" else _compare_sections(doc)


# -- comparisons --


def summary(comparison: dict[str, Any]) -> str:
    """A comparison in one sentence."""
    a, b, ratio = comparison["a"], comparison["b"], comparison["ratio"]
    if ratio is None or comparison["ci95"] is None:
        return f"{b} against {a}: too few samples for a verdict ({comparison['rounds']} rounds)."
    low, high = comparison["ci95"]
    interval = f"{units.ratio(ratio)}x as fast (95% {units.ratio(low)}-{units.ratio(high)})"
    seen = f"An effect of {units.share(comparison['smallest_effect'])} would have been seen 4 times out of 5."
    return f"{b} is {interval} as {a}: {comparison['verdict']}. {seen}"


def _compare_sections(doc: dict[str, Any]) -> list[Section]:
    built: list[Section] = [Notes([summary(comparison) for comparison in doc["comparisons"]], kind="result")]
    if doc["control"] and doc["control"]["ci95"]:
        low, high = doc["control"]["ci95"]
        built.append(
            Notes(
                [f"Control: {doc['baseline']} against itself {doc['control']['ratio']:.3f} ({low:.3f}-{high:.3f})."],
                kind="result",
            )
        )
    if doc["warnings"]:
        built.append(Notes(doc["warnings"]))
    built += [_rows_table(comparison) for comparison in doc["comparisons"] if comparison["pairs"]]
    if any(comparison["ratios"] for comparison in doc["comparisons"]):
        built.append(_ratio_plot(doc))
    if doc.get("nets"):
        built += net_sections(doc["nets"])
    built.append(_how_table(doc))
    return built


def _rows_table(comparison: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in comparison["rows"]:
        show = units.size if row["unit"] == "bytes" else units.seconds
        name = row["name"]
        if row["kind"] == "stage":
            name = "  " * (1 + name.count("/")) + name.rpartition("/")[2]
        ratio = f"{units.ratio(row['ratio'])}x" if row["ratio"] else f"only in {row['only']}" if row.get("only") else "-"
        interval = f"{units.ratio(row['ci95'][0])}-{units.ratio(row['ci95'][1])}" if row["ratio"] and row["ci95"] else ""
        part = row.get("contribution")
        share = "" if part is None else f"{part['value']:+.1%}"
        values = [show(row[side]) if row[side] else "-" for side in ("a", "b")]
        rows.append((name, *values, ratio, interval, share, "none seen" if row["verdict"] == SAME else row["verdict"]))
    note = (
        "ratio: A's cost over B's, above 1 B needs less. of A: what a stage adds to or takes from A's whole time; "
        "stages are exclusive, and their verdicts hold together at 95%. none seen: no measurable difference."
    )
    if comparison["projected"] and comparison["ratio"]:
        projected, measured = units.ratio(comparison["projected"]), units.ratio(comparison["ratio"])
        note += f" Amdahl, from A's shares and the stages' ratios: {projected}x; measured: {measured}x."
    title = f"A: {comparison['a']}   B: {comparison['b']}"
    return Table(title, ("", ">A", ">B", ">ratio", ">95%", ">of A", "verdict"), rows, note)


def _ratio_plot(doc: dict[str, Any]) -> Plot:
    series, longest = {}, 0
    for comparison in doc["comparisons"]:
        values = [ratio for found in comparison["ratios"] for ratio in found]
        longest = max(longest, len(values))
        series[f"{comparison['b']} against {comparison['a']}"] = values
    number = [float(i) for i in range(1, longest + 1)]
    bands = {f"{c['b']} against {c['a']}": (c["ratio"], *c["ci95"]) for c in doc["comparisons"] if c["ratio"] and c["ci95"]}
    return Plot("Paired ratios, block by block", "dots", "pair", "A's cost / B's cost", number, series, bands=bands)


def _how_table(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for comparison in doc["comparisons"]:
        pairs = f"{comparison['rounds']} rounds of fresh processes, {comparison['pairs']} pairs"
        rows.append((f"{comparison['b']}", pairs if doc["plan"] else f"{comparison['rounds']} saved runs in all"))
        rates = [comparison["work"][side].get("per_second") for side in ("a", "b")]
        if all(rates):
            unit = WORDS[doc["unit"]]
            rows.append(("throughput", f"A {units.count(rates[0])}, B {units.count(rates[1])} {unit} per second"))
    if plan := doc["plan"]:
        race = plan["race"]
        rows.append(("turns", f"{race['turns']} of at least {units.seconds(race['block'])} per round, in random order"))
        rows.append(
            (
                "stops",
                f"at an interval of {units.share(plan['precision'])} either side, or after {units.seconds(plan['budget'])}",
            )
        )
    return Table("How it was measured", ("", ""), [*rows, *_machine_rows(doc)])


def _machine_rows(doc: dict[str, Any]) -> list[tuple[Cell, ...]]:
    facts = doc["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in (facts.get("versions") or {}).items())
    return [
        ("machine", f"{facts.get('cpu')}, {facts.get('usable_cores', 0):g} of {facts.get('cores', 0)} cores usable"),
        ("software", f"Python {facts.get('python')}, {versions}"),
        ("record", doc["run"]),
    ]


# -- sweeps --


def _sweep_sections(doc: dict[str, Any]) -> list[Section]:
    built: list[Section] = []
    if "until" in doc:
        return _growth_sections(doc)
    if "delayed" in doc:
        return _causal_sections(doc)
    said = []
    if doc["best"]:
        said.append(f"Fastest: {doc['best']}.")
    if doc["scaling"]:
        knee = doc["scaling"]["knee"]
        said.append(
            f"Knee: {doc['scaling']['knob']}={knee['value']:g} gives {units.share(knee['of_best'])} of the best throughput."
        )
        said += doc["scaling"]["says"]
    if said:
        built.append(Notes(said, kind="result"))
    if doc["warnings"]:
        built.append(Notes(doc["warnings"]))
    built.append(_points_table(doc))
    measured = [point for point in doc["points"] if point["throughput"]]
    if doc["scaling"] and len(measured) > 1:
        built += _curve_plots(doc, measured)
    if measured:
        built.append(_stage_costs_table(doc, measured))
    if doc["growth"]:
        built.append(growth_table({"rows": doc["growth"], "why": []}, "How an iteration's time grows with the work in it"))
    built.append(Table("How it was measured", ("", ""), _machine_rows(doc)))
    return built


def _points_table(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    best = max((point["throughput"] or 0.0 for point in doc["points"]), default=0.0)
    for point in doc["points"]:
        if not point["throughput"]:
            rows.append((point["name"], "not measured", "", "", "", ""))
            continue
        low, high = point["ci95"]
        length = point["work"]["env_steps_per_episode"]
        rows.append(
            (
                point["name"],
                units.count(point["throughput"]),
                f"{units.count(low)}-{units.count(high)}",
                units.share(point["throughput"] / best),
                units.size(point["memory"]),
                f"{length:.0f}" if length else "-",
            )
        )
    columns = ("", f">{WORDS[doc['unit']]}/s", ">95%", ">of best", ">memory", ">steps per episode")
    return Table("Throughput", columns, rows)


def _curve_plots(doc: dict[str, Any], points: list[dict[str, Any]]) -> list[Section]:
    knob = doc["scaling"]["knob"]
    ordered = sorted(points, key=lambda point: float(point["values"][knob]))
    x = [float(point["values"][knob]) for point in ordered]
    rates = [point["throughput"] for point in ordered]
    unit = WORDS[doc["unit"]]
    ideal = [rates[0] * value / x[0] for value in x]
    paths = sorted({path for point in ordered for path in point["stages"]}, key=stages.order)
    main = [p for p in paths if max(point["stages"].get(p, 0) / sum(point["stages"].values()) for point in ordered) > 0.02]
    costs = {path: [1e6 * point["stages"].get(path, 0.0) for point in ordered] for path in main}
    return [
        Plot("Throughput", "lines", knob, f"{unit} per second", x, {"measured": rates, "in proportion": ideal}, log=True),
        Plot(f"Cost per {unit.removesuffix('s')}, stage by stage", "lines", knob, "microseconds", x, costs, log=True),
    ]


def _stage_costs_table(doc: dict[str, Any], points: list[dict[str, Any]]) -> Table:
    paths = sorted({path for point in points for path in point["stages"]}, key=stages.order)
    shown = points if len(points) <= 6 else [points[0], points[len(points) // 2], points[-1]]
    rows: list[tuple[Cell, ...]] = [
        ("  " * path.count("/") + path.rpartition("/")[2], *(units.seconds(p["stages"].get(path, 0.0)) for p in shown))
        for path in paths
    ]
    unit = WORDS[doc["unit"]].removesuffix("s")
    names = [point["name"] for point in shown]
    if len(doc["knobs"]) == 1:
        names = [name.partition("=")[2] for name in names]
    return Table(f"Time per {unit}, stage by stage, against {', '.join(doc['knobs'])}", ("", *(f">{n}" for n in names)), rows)


# -- growth --


def _growth_sections(doc: dict[str, Any]) -> list[Section]:
    what = WORDS[doc["until"]]
    built: list[Section] = []
    if len(doc["reached"]) > 1:
        last = doc["reached"][-1]
        first = doc["reached"][0]
        times = last["seconds"] / last["expected_seconds"]
        said = [
            f"{last['count']:,.0f} {what} took {units.seconds(last['seconds'])}, {times:.1f} times what "
            f"{first['count']:,.0f} would make one expect ({units.seconds(last['expected_seconds'])}).",
            f"By env steps, {units.seconds(last['expected_by_steps'])} were to be expected: "
            f"{last['seconds'] / last['expected_by_steps']:.2f} times that were needed.",
        ]
        if by_updates := last["expected_by_updates"]:
            said.append(f"By updates, {units.seconds(by_updates)}: {last['seconds'] / by_updates:.2f} times that.")
        built.append(Notes([*said, *(doc["growth"] or {"why": []})["why"]], kind="result"))
    if doc["warnings"]:
        built.append(Notes(doc["warnings"]))
    rows: list[tuple[Cell, ...]] = [
        (
            f"{row['count']:,.0f}",
            units.seconds(row["seconds"]),
            units.seconds(row["expected_seconds"]),
            f"{row['seconds'] / row['expected_seconds']:.2f}x",
            f"{row['env_steps']:,.0f}",
            f"{row['updates']:,.0f}",
            units.seconds(row["expected_by_steps"]),
        )
        for row in doc["reached"]
    ]
    columns = (f">{what}", ">time", ">in proportion", ">ratio", ">env steps", ">updates", ">expected by steps")
    built.append(Table(f"Time until so many {what}", columns, rows))
    if doc["growth"]:
        built.append(growth_table({**doc["growth"], "why": []}))
    curve = doc["curve"]
    if curve["x"]:
        built.append(Plot(f"Time and work against {what}", "lines", what, "relative to the end", curve["x"], curve["series"]))
    built.append(Table("How it was measured", ("", ""), _machine_rows(doc)))
    return built


# -- delays --


def _causal_sections(doc: dict[str, Any]) -> list[Section]:
    built: list[Section] = []
    unit = WORDS[doc["unit"]].removesuffix("s")
    if doc["slope"] is not None:
        interval = f" (95% {doc['slope_ci95'][0]:.2f}-{doc['slope_ci95'][1]:.2f})" if doc["slope_ci95"] else ""
        reading = (
            "it is in the way"
            if doc["slope"] > 0.8
            else "part of it overlaps with other work"
            if doc["slope"] > 0.2
            else "it overlaps"
        )
        said = [f"Of time added to {doc['delay']}, the whole notices {doc['slope']:.0%}{interval}: {reading}."]
        built.append(Notes(said, kind="result"))
    if doc["warnings"]:
        built.append(Notes(doc["warnings"]))
    rows: list[tuple[Cell, ...]] = [
        (
            point["name"],
            units.seconds(point["injected"]),
            units.seconds(point["cost"]),
            "" if point["noticed"] is None else units.seconds(point["noticed"]),
        )
        for point in doc["delayed"]
    ]
    built.append(Table(f"Delays, per {unit}", ("", ">put in", ">cost", ">noticed"), rows))
    gains: list[tuple[Cell, ...]] = []
    for row in doc["projections"]:
        times = "gone" if row["times"] is None else f"{row['times']:g}x faster"
        by_delay = f"{units.ratio(row['by_delay'])}x" if row.get("by_delay") else "-"
        interval = "-".join(units.ratio(v) if v else "any" for v in row["ci95"]) if row.get("ci95") else ""
        gains.append((times, f"{units.ratio(row['by_share'])}x" if row["by_share"] else "-", by_delay, interval))
    note = f"{doc['delay']} has {units.share(doc['share'])} of the time" if doc["share"] is not None else ""
    built.append(Table("What a faster stage would give", ("", ">by its share", ">by the delays", ">95%"), gains, note))
    built.append(Table("How it was measured", ("", ""), _machine_rows(doc)))
    return built


# -- networks --


def net_sections(doc: dict[str, Any]) -> list[Section]:
    rows: list[tuple[Cell, ...]] = []
    for net in doc["nets"]:
        low, high = net["both_ci95"]
        rows.append(
            (
                net["name"],
                units.count(net["parameters"]),
                units.count(net["operations"]),
                units.size(net["saved_bytes"]),
                units.seconds(net["act"]),
                units.seconds(net["forward"]),
                units.seconds(net["backward"]),
                f"{units.seconds(net['both'])} ({units.seconds(low)}-{units.seconds(high)})",
            )
        )
    columns = ("network", ">parameters", ">operations", ">kept", ">act", ">forward", ">backward", ">both, 95%")
    note = (
        f"batch {doc['batch']}, in turns in one process; operations of a forward pass; kept: memory for the backward pass; "
        "act: forward without gradients"
    )
    built: list[Section] = [Notes(doc["says"], kind="result")] if doc["says"] else []
    built.append(Table("Networks", columns, rows, note))
    modules: list[tuple[Cell, ...]] = []
    for net in doc["nets"]:
        for module in net["modules"]:
            name = "  " * module["depth"] + module["name"].rpartition(".")[2]
            times = [
                units.seconds(module[way] / max(module["calls"], 1)) if module[way] else "-" for way in ("forward", "backward")
            ]
            modules.append((f"{name} ({module['kind']})", f"{module['parameters']:,}", *times))
    built.append(
        Table(
            "Networks, module by module",
            ("module", ">parameters", ">forward", ">backward"),
            modules,
            "with hooks, a pass of its own",
        )
    )
    return built
