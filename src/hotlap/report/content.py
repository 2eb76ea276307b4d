"""What a report shows: the document's numbers, chosen, ordered and worded as sections. Renderers compute nothing."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotlap import stages
from hotlap.clock import ENV_STEPS, EPISODES, UPDATES
from hotlap.record import strict_reading
from hotlap.report import units
from hotlap.report.targets import Target


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
    """Lines that the reader must not miss."""

    lines: list[str]


@dataclass(frozen=True)
class Plot:
    """A figure, for renderers that can draw: kind is "area", "lines" or "icicle"."""

    title: str
    kind: str
    x_label: str = ""
    y_label: str = ""
    x: list[float] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)  # icicle: path -> parent path
    labels: dict[str, str] = field(default_factory=dict)  # icicle: path -> its value in words


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
    if doc["evaluation"]:
        built.append(_evaluation_section(doc))
    if doc["targets"]:
        built.append(_targets_section(doc))
    if doc["hot_lines"]:
        built.append(_hot_lines_section(doc))
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
    rows.append(("memory", units.size(memory["peak_bytes"]), f"peak; {units.size(growth)} grown over the run"))
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
        (units.share(line["share"]), line["stage"] or "-", line["where"], line["code"] or line["function"])
        for line in doc["hot_lines"]
    ]
    note = "sampled where Python can be interrupted: at calls and loop ends; native code counts for its caller"
    return Table("Hottest lines", (">share", "stage", "where", "code"), rows, note, crop=True)


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
        ("record", doc["run"]),
    ]
    return Table("Machine", ("", ""), [(name, value) for name, value in pairs])
