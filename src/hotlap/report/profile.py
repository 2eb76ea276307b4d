"""The report of a profile or a training run."""

from collections.abc import Sequence

from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.record.header import CaseReturn, Evaluation, Verb
from hotlap.record.limits import Limit
from hotlap.record.lines import WARMUP
from hotlap.record.observed import GpuActivity
from hotlap.record.profile import Copies, Profile, Speedup, StageTime, WorkerTimes
from hotlap.report import what_if
from hotlap.report.code import code_sections
from hotlap.report.learners import learner_sections
from hotlap.report.sections import (
    Bar,
    Cell,
    Cells,
    Notes,
    Plot,
    Section,
    Table,
    containment_rows,
    growth_table,
    machine_rows,
    plain,
    stage_name,
)


def headline(profile: Profile) -> str:
    """One line that names the run."""
    identity = profile.identity
    parts = [f"{identity.verb} {identity.target}"]
    if "device" in profile.config:
        parts += ["environments only" if profile.env_only else str(profile.config["device"])]
        parts += ["turbo" if profile.config.get("turbo") else "no turbo"]
    return " · ".join([*parts, identity.status])


def sections(profile: Profile, breakdown: bool = False) -> list[Section]:
    """A run in the order a reader wants it. `breakdown` opens collect and update into the stages inside them."""
    built: list[Section] = [Notes(profile.warnings)] if profile.warnings else []
    if profile.stages:
        tree, *over_time = _plots(profile)
        built += learner_sections(profile)
        built += [_stages(profile, breakdown), tree, _throughput(profile), *over_time, _time_and_memory(profile)]
    if profile.what_if and breakdown:
        built.append(_what_if(profile))
    if profile.what_if_curves:
        built += what_if.sections(profile.what_if_curves)
    if profile.growth and (profile.growth.why or profile.growth.is_superlinear):
        built.append(growth_table(profile.growth.rows, profile.growth.why))
    if profile.workers:
        built.append(_workers(profile))
    if profile.stages and (counted := _counters(profile)).rows:
        built.append(counted)
    if profile.evaluation:
        built.append(_evaluation(profile.evaluation))
    if profile.evaluation and profile.evaluation.cases:
        built.append(_cases(profile.evaluation.cases))
    if profile.targets:
        built.append(_targets(profile))
    return [*built, *code_sections(profile), _machine(profile)]


# -- stages --


def _stages(profile: Profile, breakdown: bool) -> Table:
    table = profile.stages
    gpu = any(stage.gpu_share is not None for stage in table.values())
    rows: list[Cells] = []
    for path, stage in table.items():
        depth = path.count("/")
        if depth and not breakdown:
            continue
        rows.append(_inclusive_row(stage_name(path), stage, gpu))
        if breakdown and any(stages.parent(other) == path for other in table):
            rows.append(_exclusive_row("  " * (depth + 1) + "(itself)", stage, gpu))
    wall = sum(stage.seconds for stage in table.values())
    rows.append(("wall time", units.seconds(wall), "100.0%", *([""] if gpu else []), "", ""))
    columns = ("stage", ">seconds", ">share", *([">on the GPU"] if gpu else []), ">95% interval", "")
    note = f"{profile.iterations.measured} iterations after {profile.iterations.warmup} of warm-up"
    if not breakdown and profile.identity.verb is Verb.PROFILE and any("/" in path for path in table):
        note += "; --breakdown opens collect and update"
    return Table("Where the time went", columns, rows, note)


def _inclusive_row(name: str, stage: StageTime, gpu: bool) -> Cells:
    on_gpu = [units.share(stage.gpu_share) if stage.gpu_share is not None else ""] if gpu else []
    numbers = units.seconds(stage.total_seconds), units.share(stage.total_share)
    return (name, *numbers, *on_gpu, units.share_range(*stage.total_ci95), Bar(stage.total_share))


def _exclusive_row(name: str, stage: StageTime, gpu: bool) -> Cells:
    numbers = units.seconds(stage.seconds), units.share(stage.share)
    return (name, *numbers, *([""] if gpu else []), units.share_range(*stage.ci95), Bar(stage.share))


def _what_if(profile: Profile) -> Table:
    def gain(speedup: Speedup) -> str:
        low, high = speedup.ci95
        return f"{speedup.speedup:.2f}x ({low:.2f}-{high:.2f})"  # three of these fit in 80 columns

    rows: list[Cells] = [
        (row.stage, units.share(row.share), gain(row.faster_2x), gain(row.faster_10x), gain(row.gone))
        for row in profile.what_if
    ]
    columns = ("stage", ">share", ">2x faster", ">10x faster", ">gone")
    note = (
        "the whole, by Amdahl's law on exclusive shares, with 95% intervals; less where stages overlap (hotlap sweep --delay)"
    )
    return Table("If a stage were faster", columns, rows, note)


# -- throughput, time, memory --


def _throughput(profile: Profile) -> Table:
    rates, windows, counts = profile.throughput, profile.windows, profile.counts
    rows: list[Cells] = []
    for what, total, rate, series in (
        (ENV_STEPS, counts.env_steps, rates.env_steps_per_s, windows.env_steps_per_s),
        (UPDATES, counts.updates, rates.updates_per_s, windows.updates_per_s),
        (EPISODES, counts.episodes, rates.episodes_per_s, windows.episodes_per_s),
    ):
        low, high = rates.ci95[f"{what}_per_s"]
        if rate or high or total:
            interval, spark = f"{units.count(low)}-{units.count(high)}", _spark(_without_warmup(profile, series))
            rows.append((plain(what), units.count(rate or 0.0), interval, units.count(total), spark))
    note = "median over windows of one iteration; in all: with warm-up. Each episode that ends is followed by a reset"
    return Table("Throughput", ("", ">per second", ">95% interval", ">in all", "per window"), rows, note)


def _spark(rates: Sequence[float], width: int = 30) -> str:
    """The rate of each window as a line of little bars."""
    top = max(rates[-width:], default=0.0)
    return "".join("▁▂▃▄▅▆▇█"[int(7 * max(rate, 0.0) / top)] for rate in rates[-width:]) if top > 0 else ""


def _without_warmup(profile: Profile, series: Sequence[float]) -> list[float]:
    return [value for value, phase in zip(series, profile.windows.phase, strict=True) if phase != WARMUP]


def _time_and_memory(profile: Profile) -> Table:
    spread, memory = profile.iterations.seconds, profile.memory
    rows: list[Cells] = []
    if spread:
        detail = f"median; 95% {_seconds_range(spread.ci95)}, std {units.seconds(spread.std)}"
        rows.append(("one iteration", units.seconds(spread.median), detail))
    for number, projected in profile.projection.items():
        detail = f"projected; 95% {_seconds_range(projected.ci95)}"
        rows.append((f"{int(number):,} iterations", units.seconds(projected.seconds), detail))
    growth = memory.last_bytes - memory.first_bytes
    rows.append(("memory", units.size(memory.peak_bytes), f"peak; {units.size(growth)} grown after warm-up"))
    if memory.gpu_peak_bytes:
        busy = f"; GPU busy {units.share(profile.gpu_busy)}" if profile.gpu_busy is not None else ""
        rows.append(("GPU memory", units.size(memory.gpu_peak_bytes), f"peak{busy}"))
    if profile.gpu:
        rows.append(_gpu_row(profile.gpu))
    return Table("Time, memory and the cost of measuring", ("", ">value", ""), [*rows, *_overhead_rows(profile)])


def _gpu_row(gpu: GpuActivity) -> Cells:
    waits = f"waits for the host {units.share(gpu.host_wait)}, for its own work {units.share(gpu.kernel_wait)}"
    each = f"; {gpu.kernels / gpu.updates:,.0f} kernels per update" if gpu.updates else ""
    calls = f"{gpu.kernels:,} kernels by {gpu.launches:,} launches{each}, {gpu.copies:,} copies"
    return ("GPU busy", units.share(gpu.busy), f"{waits}; {calls}, in {units.seconds(gpu.seconds)}")


def _overhead_rows(profile: Profile) -> list[Cells]:
    measuring = profile.measuring
    if measuring.overhead is None or measuring.overhead_counted is None:
        return []
    detail = f"counted {units.share(measuring.overhead_counted)}"
    if bare := measuring.overhead_ab:
        detail += f"; measured/bare iterations {bare.ratio:.3f} ({bare.ci95[0]:.3f}-{bare.ci95[1]:.3f})"
    return [("cost of measuring", units.share(measuring.overhead), detail)]


def _seconds_range(interval: tuple[float, float]) -> str:
    return f"{units.seconds(interval[0])}-{units.seconds(interval[1])}"


# -- workers and counters --


def _workers(profile: Profile) -> Table:
    workers = profile.workers
    assert workers is not None
    slowest = workers.slowest
    rows: list[Cells] = [
        ("median", *_worker_cells(workers.median)),
        (f"slowest ({slowest.worker})", *_worker_cells(slowest.times)),
    ]
    threads = sum(times.threads for times in workers.each.values()) + profile.threads.get("torch", 1)
    cores = profile.identity.machine.usable_cores
    note = f"{workers.count} worker processes; with the script's own {threads:g} torch threads on {cores:g} usable cores"
    columns = ("", ">one step", ">p99/median", ">in the env", ">acting", ">waiting", ">other", ">CPU", ">memory")
    return Table("Worker processes", columns, rows, note)


def _worker_cells(times: WorkerTimes) -> tuple[str, ...]:
    spread = f"{times.step_p99 / times.step_median:.1f}x" if times.step_median else "-"
    shares = (times.env_share, times.act_share, times.wait_share, times.other_share, times.cpu_share)
    return (units.seconds(times.step_seconds), spread, *map(units.share, shares), units.size(times.memory_bytes))


def _counters(profile: Profile) -> Table:
    counters, cores = profile.counters, profile.identity.machine.usable_cores
    if not profile.types and not counters.by_stage:
        return Table("What was counted", ("", ">value", ""), [])
    per_step = None if counters.step_median is None else units.seconds(counters.step_median)
    rows = [
        ("rows per forward pass when acting", _count(counters.act_batch), "many small ones cost more than few large ones"),
        ("forward passes per env step", _count(counters.act_calls_per_env_step), ""),
        ("rows per minibatch", _count(counters.minibatch), ""),
        ("updates per env step", _count(counters.updates_per_env_step), ""),
        ("env steps per episode", _count(counters.episode_length), "of the episodes that ended"),
        ("one call of step", per_step, f"median; p99 {units.seconds(counters.step_p99 or 0)}"),
        ("resets", _share(counters.reset_share), "of the environments' time"),
        ("synchronising calls per update", _count(counters.syncs_per_update), "item, tolist, numpy, nonzero and the like"),
        ("copies to the device", _copies(counters.to_device), ""),
        ("copies to the host", _copies(counters.to_host), ""),
        ("bytes sent to workers per env step", _count(counters.ipc_bytes_per_env_step), ""),
        ("cores in use", f"{counters.cpu_cores:.2f}", f"of {cores:g} usable, by this process"),
        (
            "context switches per second",
            _count(counters.switches_per_s),
            f"voluntary; {units.count(counters.forced_switches_per_s)} forced",
        ),
        ("page faults per second", _count(counters.page_faults_per_s), f"{units.count(counters.disk_faults_per_s)} from disk"),
        ("throttled by the cgroup", _share(counters.throttled_share or None), ""),
        ("garbage collection", _share(counters.gc_share), f"{units.count(counters.gc_per_s)} runs per second"),
        ("graphs compiled after warm-up", _count(counters.compiled_graphs or None), "recompilation"),
        *((f"numbers: {what}", kind, "") for what, kind in profile.types.items()),
    ]
    shown: list[Cells] = [(label, value, note) for label, value, note in rows if value is not None]
    return Table("What was counted", ("", ">value", ""), shown)


def _count(value: float | None) -> str | None:
    return None if value is None else units.count(value)


def _share(value: float | None) -> str | None:
    return None if value is None else units.share(value)


def _copies(moved: Copies) -> str | None:
    return f"{units.count(moved.copies)}, {units.size(moved.bytes)}" if moved.copies else None


# -- evaluation, limits, machine --


def _evaluation(evaluation: Evaluation) -> Table:
    rows: list[Cells] = []
    for label, mean, (low, high) in (
        ("return", evaluation.mean_return, evaluation.ci95),
        (evaluation.score_name, evaluation.mean_score, evaluation.score_ci95),
        *((metric.name, metric.mean, metric.ci95) for metric in evaluation.metrics),
    ):
        rows.append((label, f"{mean:.2f}", f"{low:.2f} to {high:.2f}"))
    rows.append(("length", f"{evaluation.mean_length:.0f}", ""))
    for bot in evaluation.against:
        low, high = bot.ci95
        rows.append((f"score against {bot.bot}", f"{bot.mean_score:.1%}", f"{low:.1%} to {high:.1%}"))
        for metric in bot.metrics:
            low, high = metric.ci95
            rows.append((f"{metric.name} against {bot.bot}", f"{metric.mean:.2f}", f"{low:.2f} to {high:.2f}"))
    if evaluation.rating is not None:
        rows.append(("rating", f"{evaluation.rating:.0f}", "against bots; playing at random is 1000"))
    note = f"{'actions drawn from the policy' if evaluation.sampled else 'greedy play'}, {evaluation.episodes} episodes"
    return Table("Evaluation", ("per episode", ">mean", ">95% interval"), rows, note)


def _cases(cases: Sequence[CaseReturn]) -> Table:
    rows: list[Cells] = []
    for case in cases:
        low, high = case.ci95
        rows.append((case.case, f"{case.mean_return:.2f}", f"{low:.2f} to {high:.2f}", f"{case.std:.2f}", str(case.episodes)))
    rows.append(("sum of the means", f"{sum(case.mean_return for case in cases):.2f}", "", "", ""))
    return Table("Evaluation by case", ("return", ">mean", ">95% interval", ">standard deviation", ">episodes"), rows)


def _targets(profile: Profile) -> Table:
    rows: list[Cells] = [
        (row.target, Limit.parse(row.target).show(row.measured), "pass" if row.passed else "FAIL") for row in profile.targets
    ]
    return Table("Targets", ("target", ">measured", "verdict"), rows)


def _machine(profile: Profile) -> Table:
    machine = profile.identity.machine
    cpu, software = (row[1] for row in machine_rows(machine))
    pairs: list[tuple[str, Cell]] = [
        ("CPU", cpu),
        ("memory", units.size(machine.memory)),
        ("GPU", ", ".join(gpu.name for gpu in machine.gpus) or "none"),
        ("load before", " ".join(f"{value:g}" for value in machine.load)),
        ("software", software),
        ("commit", machine.commit or "none"),
        ("GPU timing", profile.gpu_timing or "unknown"),
        *([("environments in", profile.layout)] if profile.layout else []),
        *([("CUDA graphs", profile.graphs)] if profile.graphs else []),
    ]
    run: Cells = ("record", profile.identity.run)
    return Table("Machine", ("", ""), [*pairs, *containment_rows(profile.scratch, profile.containment), run])


# -- plots --


def _plots(profile: Profile) -> list[Section]:
    windows, table = profile.windows, profile.stages
    number = [float(i) for i in range(1, len(windows.time) + 1)]
    when = _without_warmup(profile, windows.time)
    steps, updates, episodes = (
        _without_warmup(profile, rates) for rates in (windows.env_steps_per_s, windows.updates_per_s, windows.episodes_per_s)
    )
    shares: dict[str, Sequence[float]] = {path: [100 * v for v in values] for path, values in windows.shares.items()}
    each = {path: stage.total_seconds / profile.iterations.measured for path, stage in table.items()}
    iteration = profile.iterations.seconds.mean if profile.iterations.seconds else 0.0
    x_label, y_label = "seconds since the start", "env steps per second"
    return [
        Plot(
            "Time per iteration, stage by stage",
            "icicle",
            series={"iteration": [iteration], **{path: [seconds] for path, seconds in each.items()}},
            parents={"iteration": "", **{path: stages.parent(path) or "iteration" for path in table}},
            labels={path: units.seconds(seconds) for path, seconds in each.items()},
        ),
        Plot("Share of each stage over iterations", "area", "iteration", "% of wall time", number, shares),
        Plot("Env steps per second after warm-up", "lines", x_label, y_label, when, {"env steps": steps}),
        Plot(
            "Updates and episodes per second after warm-up",
            "lines",
            x_label,
            "per second",
            when,
            {"updates": updates, "episodes": episodes},
        ),
    ]
