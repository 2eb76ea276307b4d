"""Where training happened: the processes that learn, joined into one series of windows when the run has ended.

The windows are those of the learner with the most updates, among those that were not killed early. Its stages are the mean over
all learners that were measured at that time; steps, updates and other counts are their sum. Environment steps are counted
once: where learners step themselves, theirs; else those that the script has counted (RLlib's driver, a script that collects
for a learner); else those of the workers.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from hotlap.core import counts as names
from hotlap.core import stages
from hotlap.core.counts import (
    CV2_THREADS,
    ENV_STEPS,
    EPISODE_STEPS,
    EPISODES,
    GATHERED_STEPS,
    SCRIPT_CPU,
    STEP_MEDIAN,
    STEP_P99,
    THREADS,
    UPDATES,
)
from hotlap.core.paths import WAIT
from hotlap.core.sample import Sample
from hotlap.record.files import KERNELS, LEARNERS, SAMPLES, SCRIPT_SAMPLES, SOURCES, STACKS, STOP, TRACED, WORKERS
from hotlap.record.learner import LearnerKind, Learners, LearnerSeen, LearnerTimes, read_learner
from hotlap.record.lines import BARE, MEASURED, WARMUP, Recorded, encode, read_lines
from hotlap.record.observed import Observed

NANO = 1e-9
_WORK = (ENV_STEPS, EPISODES, EPISODE_STEPS)
_WHOLE = (*_WORK, UPDATES)
_NO_SUMS = (STEP_MEDIAN, STEP_P99, THREADS, CV2_THREADS, SCRIPT_CPU)  # those of the windows' own process stay


@dataclass(frozen=True)
class Learner:
    name: str
    folder: Path
    lines: list[Recorded]
    seen: LearnerSeen

    @property
    def is_whole(self) -> bool:
        """Whether it was there to say what it saw: a process that is killed early is not."""
        return self.seen.observed.description is not None

    def total(self, what: str) -> float:
        return sum(line.sample.counts.get(what, 0) for line in self.lines)


@dataclass(frozen=True)
class Adopted:
    """What a run's header gets to know of its learners."""

    learners: Learners
    observed: Observed


def adopt_learners(run: Path, observed: Observed) -> Adopted | None:
    """Make the learners' windows and lines those of the run. None where only the script's own process learns.

    The script's own windows are kept in a file beside.
    """
    (run / STOP).unlink(missing_ok=True)
    learners = [_read(folder) for folder in sorted((run / LEARNERS).glob("*")) if (folder / SAMPLES).exists()]
    learners = [learner for learner in learners if learner.total(UPDATES)]
    if not learners:
        return None
    script = Learner("script", run, read_lines(run / SAMPLES), LearnerSeen(LearnerKind.SCRIPT, observed=observed))
    workers = [Learner(file.stem, run, read_lines(file), LearnerSeen()) for file in sorted((run / WORKERS).glob("*.jsonl"))]
    workers = [worker for worker in workers if worker.name not in {learner.name for learner in learners}]
    if script.total(UPDATES):
        learners.insert(0, script)
    shown = max(learners, key=lambda learner: (learner.is_whole, learner.total(UPDATES)))
    lines = joined(shown, learners, _stepping(learners, script, workers))
    for learner in learners:
        (run / WORKERS / f"{learner.name}.jsonl").unlink(missing_ok=True)  # it is in the lines
    _replace(run, shown, lines)
    return Adopted(_summary(shown, learners), _seen_by(shown, learners, observed))


def _read(folder: Path) -> Learner:
    """A learner, with what it did as a worker before it began to learn."""
    before = folder.parent.parent / WORKERS / f"{folder.name}.jsonl"
    earlier = [replace(line, phase=WARMUP) for line in read_lines(before)] if before.exists() else []
    return Learner(folder.name, folder, [*earlier, *read_lines(folder / SAMPLES)], read_learner(folder))


def _stepping(learners: Sequence[Learner], script: Learner, workers: Sequence[Learner]) -> Sequence[Learner]:
    """The processes whose environment steps count."""
    gathering = [worker for worker in workers if worker.total(GATHERED_STEPS)]
    for processes in (learners, [script], gathering):
        if any(process.total(ENV_STEPS) for process in processes):
            return processes
    return workers


def joined(shown: Learner, learners: Sequence[Learner], stepping: Sequence[Learner]) -> list[Recorded]:
    """The windows of one learner, with the work of all and the mean of their stages."""
    windows = [line.sample for line in shown.lines]
    samples = [replace(sample, counts=dict(sample.counts)) for sample in windows]
    for what in _WORK:
        _fill(samples, what, sum((_spread(windows, process.lines, what) for process in stepping), np.zeros(len(windows))))
    together = max(learner.seen.world_size for learner in learners)
    updates = sum((_spread(windows, learner.lines, UPDATES) for learner in learners), np.zeros(len(windows)))
    if together > 1:
        updates = np.diff(np.round(np.cumsum(updates) / together), prepend=0.0)
    _fill(samples, UPDATES, updates)
    others = [learner for learner in learners if learner is not shown]
    if others:
        _add_counts(samples, windows, others)
        _mean_stages(samples, windows, [learner.lines for learner in learners], shown)
    return [replace(line, sample=sample) for line, sample in zip(shown.lines, samples, strict=True)]


def _fill(samples: Sequence[Sample], what: str, numbers: np.ndarray) -> None:
    for sample, number in zip(samples, numbers.tolist(), strict=True):
        sample.counts.pop(what, None)
        if number:
            sample.counts[what] = number


def _spread(windows: Sequence[Sample], lines: Sequence[Recorded], what: str) -> np.ndarray:
    """How much of a count fell into each window; what lies outside of all is in the first, which is warm-up."""
    if windows and [line.sample for line in lines] == windows:
        return np.array([sample.counts.get(what, 0.0) for sample in windows])
    numbers = _within(windows, [line.sample for line in lines], lambda sample: sample.counts.get(what, 0.0), what in _WHOLE)
    numbers[0] += sum(line.sample.counts.get(what, 0.0) for line in lines) - numbers.sum()
    return numbers


def _within(
    windows: Sequence[Sample], samples: Sequence[Sample], amount: Callable[[Sample], float], whole: bool = False
) -> np.ndarray:
    """How much of an amount fell into each window, if it was spread evenly over the samples it comes from."""
    if not samples:
        return np.zeros(len(windows))
    edges = np.array([edge for s in samples for edge in (s.start, s.start + s.wall)], float)
    steps = np.array([part for s in samples for part in (0.0, amount(s))], float)
    sums = np.cumsum(steps)
    starts = np.array([sample.start for sample in windows], float)
    stops = starts + np.array([sample.wall for sample in windows], float)
    before, after = np.interp(starts, edges, sums), np.interp(stops, edges, sums)
    return np.asarray(np.round(after) - np.round(before) if whole else after - before)


def _add_counts(samples: Sequence[Sample], windows: Sequence[Sample], others: Sequence[Learner]) -> None:
    known = {name for learner in others for line in learner.lines for name in line.sample.counts}
    for what in sorted(known - {*_WHOLE, *_NO_SUMS}):
        numbers = sum((_spread(windows, learner.lines, what) for learner in others), np.zeros(len(windows)))
        for sample, number in zip(samples, numbers.tolist(), strict=True):
            if number:
                sample.counts[what] = sample.counts.get(what, 0) + number


def _mean_stages(
    samples: Sequence[Sample], windows: Sequence[Sample], lines: Iterable[Sequence[Recorded]], shown: Learner
) -> None:
    """Windows in which hooks paused have no stages, here and in other learners."""
    seen = [[line.sample for line in process if line.phase != BARE] for process in lines]
    covered = sum((_within(windows, process, lambda sample: sample.wall) for process in seen), np.zeros(len(windows)))
    paths = sorted({path for process in seen for sample in process for path in sample.exclusive}, key=stages.order)
    scale = np.array([sample.wall for sample in windows], float) / np.maximum(covered, 1.0)
    times, calls = {}, {}
    for path in paths:
        inside = [_within(windows, process, partial(_time_in, path)) for process in seen]
        times[path] = np.floor(sum(inside, np.zeros(len(windows))) * scale).astype(int)
        entered = [_within(windows, process, partial(_calls_of, path)) for process in seen]
        calls[path] = np.round(sum(entered, np.zeros(len(windows)))).astype(int)
    for number, (line, sample) in enumerate(zip(shown.lines, samples, strict=True)):
        if line.phase == BARE:
            continue
        sample.exclusive = {path: int(times[path][number]) for path in paths}
        sample.calls = {path: int(calls[path][number]) for path in paths}
        sample.inclusive = {
            path: sum(time for other, time in sample.exclusive.items() if other == path or other.startswith(f"{path}/"))
            for path in paths
        }


def _time_in(path: str, sample: Sample) -> float:
    return sample.exclusive.get(path, 0)


def _calls_of(path: str, sample: Sample) -> float:
    return sample.calls.get(path, 0)


def _replace(run: Path, shown: Learner, lines: Sequence[Recorded]) -> None:
    samples = run / SAMPLES
    if not (run / SCRIPT_SAMPLES).exists():
        samples.rename(run / SCRIPT_SAMPLES)
    part = run / f".{SAMPLES}.part"
    part.write_text("".join(encode(line) for line in lines))
    part.replace(samples)
    if shown.folder != run:
        for name in (STACKS, SOURCES, TRACED, KERNELS):
            if (shown.folder / name).exists():
                shutil.copyfile(shown.folder / name, run / name)


def _seen_by(shown: Learner, learners: Sequence[Learner], script: Observed) -> Observed:
    """What the learner saw of itself; notes are those of all."""
    notes = dict.fromkeys(note for seen in (script, *(learner.seen.observed for learner in learners)) for note in seen.notes)
    seen = shown.seen.observed
    cost = script.event_cost if seen.event_cost is None else seen.event_cost
    return replace(
        seen,
        notes=tuple(notes),
        event_cost=cost,
        files_changed=script.files_changed,
        effects=script.effects,
        user_modules=script.user_modules,
    )


def _summary(shown: Learner, learners: Sequence[Learner]) -> Learners:
    measured = [line.sample for line in shown.lines if line.phase == MEASURED and SCRIPT_CPU in line.sample.counts]
    wall = sum(sample.wall for sample in measured) * NANO
    return Learners(
        each={learner.name: _times(learner) for learner in learners},
        shown=shown.name,
        world_size=max(learner.seen.world_size for learner in learners),
        script_cpu=sum(sample.counts[SCRIPT_CPU] for sample in measured) / wall if wall else None,
    )


def _times(learner: Learner) -> LearnerTimes:
    lines = [line for line in learner.lines if line.phase == MEASURED] or learner.lines
    wall = sum(line.sample.wall for line in lines)

    def share(path: str) -> float:
        return sum(line.sample.inclusive.get(path, 0) for line in lines) / wall

    def rate(what: str) -> float:
        return sum(line.sample.counts.get(what, 0) for line in lines) / (wall * NANO)

    return LearnerTimes(
        kind=learner.seen.kind,
        updates=learner.total(UPDATES),
        env_steps=learner.total(ENV_STEPS),
        updates_per_s=rate(UPDATES),
        env_steps_per_s=rate(ENV_STEPS),
        collect_share=share(stages.COLLECT) - share(WAIT),
        update_share=share(stages.UPDATE) + share(stages.SAMPLE) + share(stages.ADVANTAGE),
        wait_share=share(WAIT),
        cpu_share=rate(names.CPU),
    )
