"""What a report shows: the document's numbers, chosen, ordered and worded as sections. Renderers compute nothing."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.record.limits import Target
from hotlap.record.run import strict_reading


@dataclass(frozen=True)
class Bar:
    """A length from 0 to 1."""

    value: float


Cell = str | Bar


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]  # a leading ">" aligns a column right
    rows: list[tuple[Cell, ...]]
    note: str = ""
    crop: bool = False  # where the page is narrow, cut the last column rather than fold it


@dataclass(frozen=True)
class Notes:
    """Lines that the reader must not miss: warnings, or the result itself."""

    lines: list[str]
    kind: str = "warning"  # or "result"


@dataclass(frozen=True)
class Plot:
    """A figure, for renderers that can draw: kind is "area", "lines", "dots" or "icicle"."""

    title: str
    kind: str
    x_label: str = ""
    y_label: str = ""
    x: list[float] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)  # icicle: path -> parent path
    labels: dict[str, str] = field(default_factory=dict)  # icicle: path -> its value in words
    log: bool = False  # lines: both axes by powers
    bands: dict[str, tuple[float, float, float]] = field(default_factory=dict)  # dots: series -> estimate, low, high


Section = Table | Notes | Plot


def sections(doc: dict[str, Any], breakdown: bool = False) -> list[Section]:
    """A run in the order a reader wants it. `breakdown` opens collect and update into the stages inside them."""
    with strict_reading(doc["run"]):
        return _sections(doc, breakdown)


def _sections(doc: dict[str, Any], breakdown: bool) -> list[Section]:
    built: list[Section] = [Notes(doc["warnings"])] if doc["warnings"] else []
    if doc["stages"]:
        tree, *over_time = _plots(doc)
        built += [_stage_section(doc, breakdown), tree, _throughput_section(doc), *over_time, _facts_section(doc)]
    if doc["what_if"] and breakdown:
        built.append(_what_if_section(doc))
    if doc["growth"] and (doc["growth"]["why"] or any(row["superlinear"] for row in doc["growth"]["rows"])):
        built.append(growth_table(doc["growth"]))
    if doc["workers"]:
        built.append(_workers_section(doc))
    if doc["counters"] and (counted := _counters_section(doc)).rows:
        built.append(counted)
    if doc["evaluation"]:
        built.append(_evaluation_section(doc))
    if doc["targets"]:
        built.append(_targets_section(doc))
    if doc["hot_lines"]:
        built.append(_hot_lines_section(doc))
    if doc["own_lines"]:
        built.append(_own_lines_section(doc))
    if doc["modules"]:
        built.append(_modules_section(doc))
    if doc["functions"]:
        built.append(_functions_section(doc))
    built.append(_machine_section(doc))
    return built


def headline(doc: dict[str, Any]) -> str:
    """One line that names the run."""
    parts = [f"{doc['verb']} {doc['target']}"]
    if "device" in doc["config"]:
        parts += ["environments only" if doc["env_only"] else doc["config"]["device"]]
        parts += ["turbo" if doc["config"].get("turbo") else "no turbo"]
    return " · ".join([*parts, doc["status"]])


def _stage_section(doc: dict[str, Any], breakdown: bool) -> Table:
    table: dict[str, Any] = doc["stages"]
    gpu = any("gpu_share" in row for row in table.values())
    rows: list[tuple[Cell, ...]] = []
    for path, row in table.items():
        depth = path.count("/")
        if depth and not breakdown:
            continue
        name = "  " * depth + path.rpartition("/")[2]
        cells: list[Cell] = [name, units.seconds(row["total_seconds"]), units.share(row["total_share"])]
        cells += [units.share_range(*row["total_ci95"]), Bar(row["total_share"])]
        if gpu:
            cells.insert(3, units.share(row["gpu_share"]) if "gpu_share" in row else "")
        rows.append(tuple(cells))
        inside = [p for p in table if stages.parent(p) == path]
        if breakdown and inside:
            cells = ["  " * (depth + 1) + "(itself)", units.seconds(row["seconds"]), units.share(row["share"])]
            cells += [units.share_range(*row["ci95"]), Bar(row["share"])]
            if gpu:
                cells.insert(3, "")
            rows.append(tuple(cells))
    wall = sum(row["seconds"] for row in table.values())
    last: list[Cell] = ["wall time", units.seconds(wall), "100.0%", "", ""]
    if gpu:
        last.insert(3, "")
    rows.append(tuple(last))
    columns = ["stage", ">seconds", ">share", ">95% interval", ""]
    if gpu:
        columns.insert(3, ">on the GPU")
    iterations = doc["iterations"]
    note = f"{iterations['measured']} iterations after {iterations['warmup']} of warm-up"
    if not breakdown and doc["verb"] == "profile" and any("/" in path for path in table):
        note += "; --breakdown opens collect and update"
    return Table("Where the time went", tuple(columns), rows, note)


def _throughput_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for what, label in ((ENV_STEPS, "env steps"), (UPDATES, "updates"), (EPISODES, "episodes")):
        rate, (low, high) = doc["throughput"][f"{what}_per_s"], doc["throughput"]["ci95"][f"{what}_per_s"]
        if rate or high:
            rows.append((label, units.count(rate), f"{units.count(low)}-{units.count(high)}", _spark(doc, what)))
    return Table("Throughput", ("", ">per second", ">95% interval", "per window"), rows, "median over windows of one iteration")


def _spark(doc: dict[str, Any], what: str, width: int = 30) -> str:
    """The rate of each window as a line of little bars."""
    rates = np.array(_without_warmup(doc, doc["windows"][f"{what}_per_s"])[-width:])
    top = rates.max(initial=0.0)
    return "".join("▁▂▃▄▅▆▇█"[int(7 * rate / top)] for rate in rates) if top > 0 else ""


def _without_warmup(doc: dict[str, Any], series: list[float]) -> list[float]:
    return [value for value, phase in zip(series, doc["windows"]["phase"], strict=True) if phase != "warmup"]


def _facts_section(doc: dict[str, Any]) -> Table:
    spread, memory = doc["iterations"]["seconds"], doc["memory"]
    low, high = spread["ci95"]
    rows: list[tuple[Cell, ...]] = [
        (
            "one iteration",
            units.seconds(spread["median"]),
            f"median; 95% {units.seconds(low)}-{units.seconds(high)}, spread {units.seconds(spread['std'])}",
        )
    ]
    for n, projected in doc["projection"].items():
        low, high = projected["ci95"]
        value = units.seconds(projected["seconds"])
        rows.append((f"{int(n):,} iterations", value, f"projected; 95% {units.seconds(low)}-{units.seconds(high)}"))
    growth = memory["last_bytes"] - memory["first_bytes"]
    rows.append(("memory", units.size(memory["peak_bytes"]), f"peak; {units.size(growth)} grown after warm-up"))
    if memory["gpu_peak_bytes"]:
        busy = f"; GPU busy {units.share(doc['gpu_busy'])}" if doc["gpu_busy"] is not None else ""
        rows.append(("GPU memory", units.size(memory["gpu_peak_bytes"]), f"peak{busy}"))
    if doc["overhead"] is not None:
        ab = doc["overhead_ab"]
        detail = f"counted {units.share(doc['overhead_counted'])}"
        if ab:
            detail += f"; measured/bare iterations {ab['ratio']:.3f} ({ab['ci95'][0]:.3f}-{ab['ci95'][1]:.3f})"
        rows.append(("cost of measuring", units.share(doc["overhead"]), detail))
    return Table("Time, memory and the cost of measuring", ("", ">value", ""), rows)


def _evaluation_section(doc: dict[str, Any]) -> Table:
    evaluation = doc["evaluation"]
    rows: list[tuple[Cell, ...]] = []
    for label, mean, interval in (("return", "mean_return", "ci95"), ("score", "mean_score", "score_ci95")):
        low, high = evaluation[interval]
        rows.append((label, f"{evaluation[mean]:.2f}", f"{low:.2f} to {high:.2f}"))
    rows.append(("length", f"{evaluation['mean_length']:.0f}", ""))
    if "rating" in evaluation:
        rows.append(("rating", f"{evaluation['rating']:.0f}", "against bots; playing at random is 1000"))
    note = f"greedy play, {evaluation['episodes']} episodes"
    return Table("Evaluation", ("per episode", ">mean", ">95% interval"), rows, note)


def _targets_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (row["target"], Target.parse(row["target"]).show(row["measured"]), "pass" if row["passed"] else "FAIL")
        for row in doc["targets"]
    ]
    return Table("Targets", ("target", ">measured", "verdict"), rows)


def _hot_lines_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (*_times(line), line["stage"] or "-", line["where"], line["code"] or line["function"]) for line in doc["hot_lines"]
    ]
    note = "sampled where Python can be interrupted: at calls and loop ends; native code counts for the line that called it"
    return Table("Hottest lines", (">own", ">total", "", "stage", "where", "code"), rows, note, crop=True)


def _own_lines_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (units.share(row["share"]), row["stage"] or "-", row["where"], row["code"]) for row in doc["own_lines"]
    ]
    return Table("Your own lines, with the library code they call", (">share", "stage", "where", "code"), rows, crop=True)


def _times(row: dict[str, Any]) -> tuple[str, str, str]:
    kind = {True: "native", False: "Python", None: ""}[row.get("native")]  # records of version 0.1.0 do not say
    return units.share(row["share"]), units.share(row.get("cumulative", row["share"])), kind


def _workers_section(doc: dict[str, Any]) -> Table:
    workers, cores = doc["workers"], doc["machine"].get("usable_cores", 1)
    slowest = workers["slowest"]
    rows: list[tuple[Cell, ...]] = [
        (label, *_worker_cells(row))
        for label, row in (("median", workers["median"]), (f"slowest ({slowest['worker']})", slowest))
    ]
    threads = sum(row["threads"] for row in workers["each"].values()) + doc["threads"].get("torch", 1)
    note = f"{workers['count']} worker processes; with the script's own {threads:g} torch threads on {cores:g} usable cores"
    columns = ("", ">one step", ">p99/median", ">in the env", ">acting", ">waiting", ">other", ">CPU", ">memory")
    return Table("Worker processes", columns, rows, note)


def _worker_cells(row: dict[str, Any]) -> tuple[str, ...]:
    spread = f"{row['step_p99'] / row['step_median']:.1f}x" if row["step_median"] else "-"
    shares = (units.share(row[f"{what}_share"]) for what in ("env", "act", "wait", "other", "cpu"))
    return (units.seconds(row["step_seconds"]), spread, *shares, units.size(row["memory_bytes"]))


def _counters_section(doc: dict[str, Any]) -> Table:
    found, cores = doc["counters"], doc["machine"].get("usable_cores", 1)

    def number(name: str) -> str | None:
        return None if found[name] is None else units.count(found[name])

    def copies(way: str) -> str | None:
        moved = found[way]
        return f"{units.count(moved['copies'])}, {units.size(moved['bytes'])}" if moved["copies"] else None

    per_step = None if found["step_median"] is None else units.seconds(found["step_median"])
    rows = [
        ("rows per forward pass when acting", number("act_batch"), "many small ones cost more than few large ones"),
        ("forward passes per env step", number("act_calls_per_env_step"), ""),
        ("rows per minibatch", number("minibatch"), ""),
        ("updates per env step", number("updates_per_env_step"), ""),
        ("env steps per episode", number("episode_length"), "of the episodes that ended"),
        ("one call of step", per_step, f"median; p99 {units.seconds(found['step_p99'] or 0)}"),
        ("resets", _share(found["reset_share"]), "of the environments' time"),
        ("synchronising calls per update", number("syncs_per_update"), "item, tolist, numpy, nonzero and the like"),
        ("copies to the device", copies("to_device"), ""),
        ("copies to the host", copies("to_host"), ""),
        ("bytes sent to workers per env step", number("ipc_bytes_per_env_step"), ""),
        ("cores in use", f"{found['cpu_cores']:.2f}", f"of {cores:g} usable, by this process"),
        (
            "context switches per second",
            number("switches_per_s"),
            f"given up by itself; {units.count(found['forced_switches_per_s'])} forced",
        ),
        ("page faults per second", number("page_faults_per_s"), f"{units.count(found['disk_faults_per_s'])} from disk"),
        ("throttled by the cgroup", _share(found["throttled_share"] or None), ""),
        ("garbage collection", _share(found["gc_share"]), f"{units.count(found['gc_per_s'])} runs per second"),
        ("graphs compiled after warm-up", number("compiled_graphs") if found["compiled_graphs"] else None, "recompilation"),
        *((f"numbers: {what}", kind, "") for what, kind in doc["types"].items()),
    ]
    shown: list[tuple[Cell, ...]] = [(label, value, note) for label, value, note in rows if value is not None]
    return Table("What was counted", ("", ">value", ""), shown if doc["types"] or found["by_stage"] else [])


def _share(value: float | None) -> str | None:
    return None if value is None else units.share(value)


def _what_if_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in doc["what_if"]:
        gains = [
            f"{units.ratio(row[k]['speedup'])}x ({'-'.join(units.ratio(v) for v in row[k]['ci95'])})"
            for k in ("2", "10", "gone")
        ]
        rows.append((row["stage"], units.share(row["share"]), *gains))
    columns = ("stage", ">share", ">2x faster", ">10x faster", ">gone")
    note = (
        "the whole, by Amdahl's law on exclusive shares, with 95% intervals; less where stages overlap (hotlap sweep --delay)"
    )
    return Table("If a stage were faster", columns, rows, note)


def growth_table(growth: dict[str, Any], title: str = "How time grows with the work done") -> Table:
    """Exponents of time against steps, updates and episodes."""
    rows: list[tuple[Cell, ...]] = []
    for row in growth["rows"]:
        low, high = row["ci95"]
        grows = "more than linear" if row["superlinear"] else "linear" if row["exponent"] > 0.85 else "less than linear"
        rows.append((f"with {row['work'].replace('_', ' ')}", f"{row['exponent']:.2f}", f"{low:.2f}-{high:.2f}", grows))
    return Table(title, ("", ">exponent", ">95%", ""), rows, " ".join(growth["why"]))


def _modules_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for module in doc["modules"]:
        name = "  " * module["depth"] + f"{module['name'].rpartition('.')[2]} ({module['kind']})"
        times = [units.seconds(module[way]) if module[way] else "-" for way in ("forward", "backward")]
        rows.append((name, f"{module['parameters']:,}", f"{module['calls']:,}", *times))
    columns = ("module", ">parameters", ">calls", ">forward", ">backward")
    note = "totals over two iterations with hooks, a pass of its own; containers include what they contain"
    return Table("Modules", columns, rows, note)


def _functions_section(doc: dict[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            units.seconds(row["total_seconds"]),
            units.seconds(row["own_seconds"]),
            f"{row['calls']:,}",
            f"{row['function']}  {row['where']}",
        )
        for row in doc["functions"]
    ]
    note = "cProfile, a pass of its own that it slows down; all functions are in profile.pstats"
    return Table("Functions", (">cumulative", ">own", ">calls", "function"), rows, note, crop=True)


def _plots(doc: dict[str, Any]) -> list[Section]:
    windows = doc["windows"]
    number = [float(i) for i in range(1, len(windows["time"]) + 1)]
    when = _without_warmup(doc, windows["time"])
    rates = {what: _without_warmup(doc, windows[f"{what}_per_s"]) for what in (ENV_STEPS, UPDATES, EPISODES)}
    shares = {path: [100 * value for value in values] for path, values in windows["shares"].items()}
    table = doc["stages"]
    return [
        Plot(
            "Time per iteration, stage by stage",
            "icicle",
            series={"iteration": [doc["iterations"]["seconds"]["mean"]]}
            | {path: [row["total_seconds"] / doc["iterations"]["measured"]] for path, row in table.items()},
            parents={"iteration": ""} | {path: stages.parent(path) or "iteration" for path in table},
            labels={path: units.seconds(row["total_seconds"] / doc["iterations"]["measured"]) for path, row in table.items()},
        ),
        Plot("Share of each stage over iterations", "area", "iteration", "% of wall time", number, shares),
        Plot(
            "Env steps per second after warm-up",
            "lines",
            "seconds since the start",
            "env steps per second",
            when,
            {"env steps": rates[ENV_STEPS]},
        ),
        Plot(
            "Updates and episodes per second after warm-up",
            "lines",
            "seconds since the start",
            "per second",
            when,
            {"updates": rates[UPDATES], "episodes": rates[EPISODES]},
        ),
    ]


def _machine_section(doc: dict[str, Any]) -> Table:
    facts = doc["machine"]
    gpus = ", ".join(str(gpu.get("name")) for gpu in facts.get("gpus", [])) or "none"
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    pairs = [
        ("CPU", f"{facts.get('cpu')}, {facts.get('usable_cores', 0):g} of {facts.get('cores', 0)} cores usable"),
        ("memory", units.size(facts.get("memory", 0))),
        ("GPU", gpus),
        ("load before", " ".join(f"{value:g}" for value in facts.get("load", []))),
        ("software", f"Python {facts.get('python')}, {versions}"),
        ("commit", facts.get("commit") or "none"),
        ("GPU timing", doc["gpu_timing"] or "unknown"),
        *([("environments in", doc["layout"])] if doc.get("layout") else []),
        ("record", doc["run"]),
    ]
    return Table("Machine", ("", ""), [(name, value) for name, value in pairs])
