"""A run's profile, computed from its record: the numbers behind every report, and the document that `--json` prints."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hotlap.core import stages, stats, units
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.errors import RecordError
from hotlap.core.paths import WAIT
from hotlap.core.sample import Sample
from hotlap.record import lines
from hotlap.record.counters import counters_of, fill_worker_steps, workers_of
from hotlap.record.growth import growth_of
from hotlap.record.header import Status, Verb
from hotlap.record.limits import Limit
from hotlap.record.profile import (
    BareRatio,
    Counts,
    Iterations,
    LimitResult,
    Memory,
    Overhead,
    Profile,
    ProjectedTime,
    Speedup,
    Spread,
    StageTime,
    Throughput,
    WhatIf,
)
from hotlap.record.run import Run
from hotlap.record.series import stage_table, windows_of

SCHEMA = "hotlap.{verb}/2"
NANO = 1e-9
WHAT_IF = 5  # stages for which a faster one is projected
FEW = 5  # samples below which an interval means little
DRIFT = 0.05  # smallest change of level worth a warning
MOST_SPEEDUP = 1e9  # in place of infinity, where a stage takes all the time


def profile_of(run: Run) -> Profile:
    """Everything that can be said about a run."""
    header, observed = run.header, run.header.observed
    fill_worker_steps(run)
    warmup, steady = run.steady()
    walls = [sample.wall * NANO for sample in steady]
    table = stage_table(_timed(run, steady), run.phase(lines.TRACED))
    profile = Profile(
        schema=SCHEMA.format(verb=header.verb),
        identity=run.identity,
        config=header.config,
        iterations=Iterations(len(steady), warmup, _spread(walls)),
        stages=table,
        unattributed=table[stages.UNATTRIBUTED].share if table else None,
        throughput=_throughput(steady),
        counts=_counts(run),
        counters=counters_of(steady, run.phase(lines.TRACED)),
        workers=workers_of(run, steady[0].start if steady else 0),
        learners=header.learners,
        learner_thread=observed.learner_thread,
        other_threads=_other_threads(steady),
        threads=observed.threads,
        types=observed.types,
        memory=_memory(run),
        projection=_projection(walls),
        what_if=_what_if(table),
        what_if_curves=observed.what_if,
        growth=growth_of([line.sample for line in run.lines if line.phase not in (lines.BARE, lines.TRACED)]),
        hot_lines=observed.hot_lines,
        hot_functions=observed.hot_functions,
        user_lines=observed.user_lines,
        modules=header.passes.modules,
        functions=header.passes.functions,
        gpu_busy=observed.usage.gpu_busy if observed.usage else None,
        gpu=observed.usage.gpu if observed.usage else None,
        gpu_timing=header.setup.gpu_timing,
        env_only=header.setup.env_only,
        layout=header.setup.layout,
        graphs=header.setup.graphs,
        scratch=header.setup.scratch,
        containment=header.setup.containment,
        files_changed=observed.files_changed,
        evaluation=header.training.evaluation,
        evaluation_seconds=header.training.evaluation_seconds,
        iteration_seconds=sum(line.sample.wall for line in run.lines) * NANO,
        measuring=_overhead(run),
        windows=windows_of(run.without_bare(), warmup),
    )
    return replace(profile, targets=_limits(run, profile), warnings=tuple(_warnings(run, profile, walls)))


def _timed(run: Run, steady: Sequence[Sample]) -> Sequence[Sample]:
    """The iterations whose stages were timed. Of a training run in CUDA graphs, where the host only waits, only those that were
    traced; the first ones also captured the graphs."""
    traced = [sample for sample in run.phase(lines.TRACED) if sample.gpu]
    if not run.header.setup.graphs or run.header.verb is not Verb.TRAIN or not traced:
        return steady
    return traced[len(traced) // 2 :]


def _what_if(table: dict[str, StageTime]) -> tuple[WhatIf, ...]:
    """What a faster stage would give, for the largest stages."""
    largest = sorted((path for path in table if path != stages.UNATTRIBUTED), key=lambda path: -table[path].share)[:WHAT_IF]

    def speedup(stage: StageTime, times: float) -> Speedup:
        value, low, high = (min(stats.amdahl(share, times), MOST_SPEEDUP) for share in (stage.share, *stage.ci95))
        return Speedup(value, (low, high))

    return tuple(
        WhatIf(path, row.share, speedup(row, 2.0), speedup(row, 10.0), speedup(row, float("inf")))
        for path in largest
        for row in (table[path],)
    )


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(**vars(stats.summarize(values)), ci95=stats.bootstrap_interval(values, np.median))


def _throughput(samples: Sequence[Sample]) -> Throughput:
    """Median rate over windows, with the interval of the median."""
    if not samples:
        return Throughput()
    medians, intervals = {}, {}
    for what in (ENV_STEPS, UPDATES, EPISODES):
        rates = [sample.counts.get(what, 0) / (sample.wall * NANO) for sample in samples]
        medians[f"{what}_per_s"] = float(np.median(rates))
        intervals[f"{what}_per_s"] = stats.bootstrap_interval(rates, np.median)
    return Throughput(**medians, ci95=intervals)


def _counts(run: Run) -> Counts:
    return Counts(*(sum(line.sample.counts.get(what, 0) for line in run.lines) for what in (ENV_STEPS, UPDATES, EPISODES)))


def _other_threads(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Of each thread beside the measured one, the share of the time in which it was in a stage."""
    wall = sum(sample.wall for sample in samples)
    shares: dict[str, dict[str, float]] = {}
    for sample in samples:
        for name, times in sample.threads.items():
            of_thread = shares.setdefault(name, {})
            for path, time in times.items():
                of_thread[path] = of_thread.get(path, 0.0) + time / wall
    ordered = ((name, {path: of[path] for path in sorted(of, key=stages.order)}) for name, of in sorted(shares.items()))
    return {name: of for name, of in ordered if any(share for path, share in of.items() if path != WAIT)}


def _memory(run: Run) -> Memory:
    every = [line.rss for line in run.lines]
    steady = [line.rss for line in run.lines if line.phase in (lines.MEASURED, lines.TRAIN)] or every or [0]
    usage = run.header.observed.usage
    return Memory(
        peak_bytes=max([*every, (usage and usage.peak_rss) or 0]),
        first_bytes=steady[0],
        last_bytes=steady[-1],
        gpu_peak_bytes=max((line.gpu_memory for line in run.lines), default=0),
    )


def _projection(walls: Sequence[float]) -> dict[str, ProjectedTime]:
    """How long 100 and 1,000 iterations would take at the mean of those measured."""
    if not walls:
        return {}
    low, high = stats.bootstrap_interval(walls)
    mean = float(np.mean(walls))
    return {str(n): ProjectedTime(n * mean, (n * low, n * high)) for n in (100, 1000)}


def _overhead(run: Run) -> Overhead:
    counted, bare = _overhead_counted(run), _bare_ratio(run)
    if counted is None or bare is None:
        return Overhead(counted, counted, bare)
    low, high = (limit - 1 for limit in bare.ci95)
    return Overhead(max(0.0, min(max(counted, low), high)), counted, bare)


def _overhead_counted(run: Run) -> float | None:
    header = run.header
    samples = run.phase(lines.MEASURED, lines.TRAIN)
    stage_cost = header.setup.stage_cost if header.observed.event_cost is None else header.observed.event_cost
    wall = sum(sample.wall for sample in samples) * NANO
    if not wall or stage_cost is None:
        return None
    entered = sum(sum(sample.calls.values()) for sample in samples if not sample.gpu)  # a graph enters its stages by itself
    return float((entered * stage_cost + header.observed.sampler_seconds) / wall)


def _bare_ratio(run: Run) -> BareRatio | None:
    """Measured iterations against bare ones that ran between them, per env step where counted."""
    measured, bare = run.phase(lines.MEASURED), run.phase(lines.BARE)
    pairs = min(len(measured), len(bare))
    if pairs < FEW:
        return None
    counted = all(sample.counts.get(ENV_STEPS, 0) > 0 for sample in [*measured, *bare])
    a, b = ([s.wall / (s.counts[ENV_STEPS] if counted else 1) for s in samples[:pairs]] for samples in (measured, bare))
    ratio, low, high = stats.paired_ratio(a, b)
    return BareRatio(ratio, (low, high), pairs)


def _limits(run: Run, profile: Profile) -> tuple[LimitResult, ...]:
    try:
        return tuple(Limit.parse(text).judge(profile) for text in run.header.setup.targets)
    except ValueError as error:
        raise RecordError(f"{run.path / 'run.json'} is damaged: {error}") from None


def _warnings(run: Run, profile: Profile, walls: Sequence[float]) -> list[str]:
    messages = list(run.header.observed.notes)
    status = profile.identity.status
    if status is Status.KILLED:
        messages.append("The process was killed: this report covers what it had recorded.")
    if status is Status.INTERRUPTED:
        messages.append("The run was interrupted: this report covers what it had recorded.")
    if status is Status.FAILED:
        messages.append(f"The run failed: {profile.identity.error}")
    trained = bool(profile.counts.env_steps or profile.counts.updates)
    if run.header.is_script and not trained:
        if status is Status.DONE:
            messages.append("No environment step and no update was seen: hotlap found no RL in this script.")
        if run.header.exit_code:
            messages.append(f"The script ended with exit code {run.header.exit_code}, so there is nothing to show.")
    elif run.header.is_script and not profile.counts.env_steps:
        messages.append(
            "No environment was seen to step, so collecting cannot be told from sampling and is unattributed. hotlap knows the "
            "environments of frameworks, and methods of your classes that return observation, reward and done."
        )
    if not walls:
        if trained or not run.header.is_script:
            messages.append("No iteration was completed after warm-up, so there is nothing to show.")
    elif run.is_cut_short:
        messages.append("No iteration was completed after warm-up: these are the ones that were seen until then.")
    elif len(walls) < FEW:
        messages.append(f"Iterations measured: {len(walls)}, too few samples for the intervals to mean much.")
    if len(walls) > FEW and (step := stats.change_point(walls)) is not None:
        ratio = np.median(walls[step:]) / np.median(walls[:step])
        if abs(ratio - 1) > DRIFT:
            messages.append(f"Drift: from measured iteration {step + 1} on, one takes {ratio:.2f}x as long as before.")
    machine = profile.identity.machine
    if machine.is_busy:
        messages.append(
            f"The machine was busy before the run: load {machine.load[0]:g} on {machine.usable_cores:g} usable cores."
        )
    if (profile.unattributed or 0) > 0.05:
        messages.append(f"{units.share(profile.unattributed or 0)} of the time belongs to no stage.")
    if (profile.measuring.overhead or 0) > 0.02:
        messages.append(f"Measuring cost {units.share(profile.measuring.overhead or 0)} of the time.")
    if profile.files_changed:
        messages.append(f"This run overwrote: {', '.join(profile.files_changed)}.")
    return messages
