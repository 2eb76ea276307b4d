"""What a run counted, as numbers that explain its times: batch sizes, ratios, copies, what the system did, and its workers."""

from collections import defaultdict
from dataclasses import fields

import numpy as np

from hotlap.core import counts as names
from hotlap.core import stages
from hotlap.core.counts import (
    ENV_STEPS,
    EPISODE_STEPS,
    EPISODES,
    FORWARDS,
    IPC_BYTES,
    IPC_MESSAGES,
    ROWS,
    SLEPT,
    STEP_MEDIAN,
    STEP_P99,
    SYNC_CALLS,
    UPDATES,
)
from hotlap.core.paths import ACT, LOSS, RESET, STEP, WAIT
from hotlap.core.sample import Sample
from hotlap.record.lines import Recorded
from hotlap.record.profile import Copies, Counters, SlowestWorker, Workers, WorkerTimes
from hotlap.record.run import Run

NANO = 1e-9


def fill_worker_steps(run: Run) -> None:
    """Where only workers stepped, the script's windows get the steps and episodes that fell into them.

    What fell between two windows, while the first was written down, is the second's; what came after all of them, the last's.
    """
    windows = [line.sample for line in run.lines]
    if not run.workers or any(sample.counts.get(ENV_STEPS) for sample in windows):
        return
    stops = np.array([sample.start + sample.wall for sample in windows], float)
    stops[-1:] = np.inf
    for what in (ENV_STEPS, EPISODES, EPISODE_STEPS):
        steps = np.zeros(len(windows))
        for lines in run.workers.values():
            begun = float(lines[0].sample.start) if lines else 0.0
            ends = [begun, *(float(line.sample.start + line.sample.wall) for line in lines)]
            sums = np.cumsum([0.0, *(line.sample.counts.get(what, 0) for line in lines)])
            steps += np.diff(np.interp(stops, ends, sums), prepend=0.0)
        for sample, count in zip(windows, steps.tolist(), strict=True):
            sample.counts[what] = sample.counts.get(what, 0) + count


def counters_of(samples: list[Sample], traced: list[Sample]) -> Counters:
    """Sums over windows, and the ratios that the causes of slow training show in. None where there is nothing to divide.

    Synchronising calls are those of traced windows: without a GPU only there they are counted.
    """
    if not samples:
        return Counters()
    counts, in_trace = _sums(samples), _sums(traced)
    wall = sum(sample.wall for sample in samples) * NANO
    exclusive = {path: sum(sample.exclusive.get(path, 0) for sample in samples) * NANO for path in (STEP, RESET)}
    by_stage: dict[str, dict[str, float]] = {}
    for name, value in counts.items():
        what, _, path = name.partition("@")
        if path:
            by_stage.setdefault(path, {})[what] = value
    act, loss = (_per(counts[f"{ROWS}@{path}"], counts[f"{FORWARDS}@{path}"]) for path in (ACT, LOSS))
    syncs = {name.partition("@")[2]: value for name, value in in_trace.items() if name.startswith(f"{SYNC_CALLS}@")}
    return Counters(
        by_stage={path: by_stage[path] for path in sorted(by_stage, key=stages.order)},
        act_batch=act,
        act_calls_per_env_step=_per(counts[f"{FORWARDS}@{ACT}"], counts[ENV_STEPS]),
        minibatch=loss,
        updates_per_env_step=_per(counts[UPDATES], counts[ENV_STEPS]),
        episode_length=_per(counts[EPISODE_STEPS], counts[EPISODES]),
        reset_share=_per(exclusive[RESET], exclusive[RESET] + exclusive[STEP]),
        step_median=_median(samples, STEP_MEDIAN),
        step_p99=_median(samples, STEP_P99),
        syncs_per_update=_per(sum(syncs.values()), in_trace[UPDATES]),
        syncs_per_env_step=_per(sum(syncs.values()), in_trace[ENV_STEPS]),
        syncs_by_stage={path: syncs[path] for path in sorted(syncs, key=stages.order)},
        to_device=_copies(by_stage, "to_device"),
        to_host=_copies(by_stage, "to_host"),
        ipc_bytes_per_env_step=_per(counts[IPC_BYTES], counts[ENV_STEPS]) if counts[IPC_MESSAGES] else None,
        cpu_cores=counts[names.CPU] / wall,
        switches_per_s=counts[names.SWITCHES] / wall,
        forced_switches_per_s=counts[names.FORCED_SWITCHES] / wall,
        page_faults_per_s=counts[names.FAULTS] / wall,
        disk_faults_per_s=counts[names.DISK_FAULTS] / wall,
        throttled_share=counts[names.THROTTLED] / wall,
        gc_share=counts[names.GC_SECONDS] / wall,
        gc_per_s=counts[names.GC_RUNS] / wall,
        compiled_graphs=counts[names.COMPILED_GRAPHS],
    )


def _sums(samples: list[Sample]) -> defaultdict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for sample in samples:
        for name, value in sample.counts.items():
            sums[name] += value
    return sums


def workers_of(run: Run, since: int = 0) -> Workers | None:
    """The worker processes from a moment on: each, the median over them, and the slowest by the time of a step."""
    each = {}
    for name, lines in run.workers.items():
        recent = [line for line in lines if line.sample.start + line.sample.wall > since]
        if recent:
            each[name] = _worker(recent)
    if not each:
        return None
    stepping = {name: times for name, times in each.items() if times.env_steps and times.env_share} or each
    slowest = max(stepping, key=lambda name: stepping[name].step_seconds)
    middle = {f.name: float(np.median([getattr(t, f.name) for t in stepping.values()])) for f in fields(WorkerTimes)}
    return Workers(len(each), each, WorkerTimes(**middle), SlowestWorker(slowest, stepping[slowest]))


def _worker(lines: list[Recorded]) -> WorkerTimes:
    samples = [line.sample for line in lines]
    wall = sum(sample.wall for sample in samples)
    exclusive = {path: sum(sample.exclusive.get(path, 0) for sample in samples) for path in (STEP, RESET, WAIT, ACT)}
    steps = sum(sample.counts.get(ENV_STEPS, 0) for sample in samples)
    environment = exclusive[STEP] + exclusive[RESET]
    return WorkerTimes(
        env_steps=steps,
        step_seconds=environment * NANO / steps if steps else 0.0,
        step_median=_median(samples, STEP_MEDIAN) or 0.0,
        step_p99=_median(samples, STEP_P99) or 0.0,
        env_share=environment / wall,
        act_share=exclusive[ACT] / wall,
        wait_share=exclusive[WAIT] / wall,
        other_share=max(0.0, 1 - (environment + exclusive[ACT] + exclusive[WAIT]) / wall),
        cpu_share=sum(sample.counts.get(names.CPU, 0) for sample in samples) / (wall * NANO),
        slept_share=sum(v for s in samples for name, v in s.counts.items() if name.startswith(SLEPT)) / (wall * NANO),
        threads=max(sample.counts.get("threads", 1) for sample in samples),
        cv2_threads=max(sample.counts.get("cv2_threads", 0) for sample in samples),
        memory_bytes=max(line.rss for line in lines),
    )


def _per(amount: float, of: float) -> float | None:
    return amount / of if of else None


def _median(samples: list[Sample], name: str) -> float | None:
    values = [sample.counts[name] for sample in samples if name in sample.counts]
    return float(np.median(values)) if values else None


def _copies(by_stage: dict[str, dict[str, float]], way: str) -> Copies:
    return Copies(*(sum(counts.get(f"{what}_{way}", 0) for counts in by_stage.values()) for what in ("copies", "bytes")))
