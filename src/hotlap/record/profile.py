"""A profile: all that can be said about one run, computed once from its record (`summary.profile_of`).

`codec.to_json(profile)` is the document that `--json` prints; reports are worded from it. Exclusive times leave out
the stages inside, inclusive times (`total_...`) do not. Intervals are 95% intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hotlap.core.words import Word
from hotlap.record.codec import FLAT
from hotlap.record.header import Evaluation, FunctionTime, ModuleTime
from hotlap.record.learner import Learners
from hotlap.record.observed import GpuActivity, HotLine
from hotlap.record.run import Identity
from hotlap.record.what_if import WhatIfCurves

Interval = tuple[float, float]


@dataclass(frozen=True)
class StageTime:
    """A stage's time. The exclusive shares of all stages, `unattributed` among them, sum to 1."""

    seconds: float  # exclusive
    share: float  # exclusive, of the wall time
    ci95: Interval
    total_seconds: float  # inclusive
    total_share: float
    total_ci95: Interval
    calls: int
    gpu_share: float | None = None  # of the traced iterations: time between its events on the GPU's timeline
    gpu_ci95: Interval | None = None


@dataclass(frozen=True)
class Spread:
    """Statistics of some values, and the interval of their median."""

    count: int
    mean: float
    median: float
    std: float
    mad: float  # median absolute deviation from the median
    low: float
    high: float
    ci95: Interval


@dataclass(frozen=True)
class Iterations:
    """Iterations of a system, or windows of a script: how many counted, and what one took."""

    measured: int
    warmup: int
    seconds: Spread | None = None  # None: nothing was measured


@dataclass(frozen=True)
class Throughput:
    """Median rates over windows; None where nothing was measured."""

    env_steps_per_s: float | None = None
    updates_per_s: float | None = None
    episodes_per_s: float | None = None
    ci95: dict[str, Interval] = field(default_factory=dict)  # by the names above


@dataclass(frozen=True)
class Counts:
    """Over the whole run, warm-up included."""

    env_steps: float = 0.0
    updates: float = 0.0
    episodes: float = 0.0


@dataclass(frozen=True)
class Copies:
    copies: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Counters:
    """What was counted, as the ratios that causes of slow training show in. None: there was nothing to divide by."""

    by_stage: dict[str, dict[str, float]] = field(default_factory=dict)  # stage -> count -> sum
    act_batch: float | None = None  # rows per forward pass when acting
    act_calls_per_env_step: float | None = None
    minibatch: float | None = None
    updates_per_env_step: float | None = None
    episode_length: float | None = None
    reset_share: float | None = None  # of the environments' time
    step_median: float | None = None  # seconds that one call of `step` takes
    step_p99: float | None = None
    syncs_per_update: float | None = None  # calls that wait for the GPU, in traced windows
    syncs_per_env_step: float | None = None
    syncs_by_stage: dict[str, float] = field(default_factory=dict)
    to_device: Copies = field(default_factory=Copies)
    to_host: Copies = field(default_factory=Copies)
    ipc_bytes_per_env_step: float | None = None
    cpu_cores: float = 0.0
    switches_per_s: float = 0.0
    forced_switches_per_s: float = 0.0
    page_faults_per_s: float = 0.0
    disk_faults_per_s: float = 0.0
    throttled_share: float = 0.0
    gc_share: float = 0.0
    gc_per_s: float = 0.0
    compiled_graphs: float = 0.0


@dataclass(frozen=True)
class WorkerTimes:
    """A worker process: what one step took, and where its time went."""

    env_steps: float
    step_seconds: float
    step_median: float
    step_p99: float
    env_share: float
    act_share: float
    wait_share: float
    other_share: float
    cpu_share: float
    slept_share: float
    threads: float
    cv2_threads: float
    memory_bytes: float


@dataclass(frozen=True)
class SlowestWorker:
    worker: str
    times: WorkerTimes = field(metadata=FLAT)


@dataclass(frozen=True)
class Workers:
    """The worker processes, the median over those that stepped, and the slowest by the time of a step."""

    count: int
    each: dict[str, WorkerTimes]
    median: WorkerTimes
    slowest: SlowestWorker


@dataclass(frozen=True)
class Memory:
    peak_bytes: int = 0
    first_bytes: int = 0  # after warm-up
    last_bytes: int = 0
    gpu_peak_bytes: int = 0


@dataclass(frozen=True)
class ProjectedTime:
    seconds: float
    ci95: Interval


@dataclass(frozen=True)
class Speedup:
    speedup: float
    ci95: Interval


@dataclass(frozen=True)
class WhatIf:
    """What a faster stage would give to the whole, by Amdahl's law on exclusive shares: too much where stages overlap."""

    stage: str
    share: float
    faster_2x: Speedup
    faster_10x: Speedup
    gone: Speedup


class GrowthCause(Word):
    LONGER_EPISODES = "longer episodes"
    LEARNING_BEGAN = "learning began"
    SLOWER_STEPS = "slower steps"


@dataclass(frozen=True)
class GrowthReason:
    """Why time grows faster than the work: a number in the first tenth of the run and in the last."""

    cause: GrowthCause
    before: float
    after: float
    stage: str | None = None  # slower steps: the stage that grew most, and by which factor
    factor: float | None = None


@dataclass(frozen=True)
class GrowthRow:
    """Time ~ work^exponent."""

    work: str  # env_steps, updates or episodes
    exponent: float
    ci95: Interval
    superlinear: bool


@dataclass(frozen=True)
class Growth:
    rows: tuple[GrowthRow, ...]
    why: tuple[GrowthReason, ...] = ()

    @property
    def is_superlinear(self) -> bool:
        return any(row.superlinear for row in self.rows)


@dataclass(frozen=True)
class LimitResult:
    """A limit such as "iteration_time<5s", and what was measured. Not measured is not passed."""

    target: str
    measured: float | None
    limit: float
    passed: bool


@dataclass(frozen=True)
class BareRatio:
    """Measured iterations against bare ones between them: the ratio of their times."""

    ratio: float
    ci95: Interval
    pairs: int


@dataclass(frozen=True)
class Overhead:
    """What measuring cost, as shares of the time."""

    overhead: float | None = None  # the counted cost, moved into the interval that bare iterations allow
    overhead_counted: float | None = None  # stages entered times the cost of one, and the sampler's time
    overhead_ab: BareRatio | None = None


@dataclass(frozen=True)
class Windows:
    """The series behind the plots, bare iterations left out; of a long run, neighbours are joined."""

    time: tuple[float, ...] = ()  # seconds since the start of the run
    phase: tuple[str, ...] = ()
    env_steps_per_s: tuple[float, ...] = ()
    updates_per_s: tuple[float, ...] = ()
    episodes_per_s: tuple[float, ...] = ()
    shares: dict[str, tuple[float, ...]] = field(default_factory=dict)  # exclusive, by stage
    counts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    rss: tuple[int, ...] = ()


@dataclass(frozen=True)
class Profile:
    schema: str
    identity: Identity = field(metadata=FLAT)
    config: dict[str, Any]
    iterations: Iterations
    stages: dict[str, StageTime] = field(default_factory=dict)
    unattributed: float | None = None
    throughput: Throughput = field(default_factory=Throughput)
    counts: Counts = field(default_factory=Counts)
    counters: Counters = field(default_factory=Counters)
    workers: Workers | None = None
    learners: Learners | None = None  # processes that learn, if that is not the script's own alone
    learner_thread: str = ""  # of the script's process, if it is not the main thread that learns
    other_threads: dict[str, dict[str, float]] = field(default_factory=dict)  # thread -> stage -> share of the time
    threads: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    projection: dict[str, ProjectedTime] = field(default_factory=dict)  # number of iterations -> how long they would take
    what_if: tuple[WhatIf, ...] = ()
    what_if_curves: WhatIfCurves | None = None  # None: not measured
    growth: Growth | None = None
    hot_lines: tuple[HotLine, ...] = ()
    hot_functions: tuple[HotLine, ...] = ()
    user_lines: tuple[HotLine, ...] = ()
    modules: tuple[ModuleTime, ...] = ()
    functions: tuple[FunctionTime, ...] = ()
    gpu_busy: float | None = None
    gpu: GpuActivity | None = None  # None: not traced
    gpu_timing: str | None = None
    env_only: bool = False
    layout: str | None = None
    graphs: str | None = None
    scratch: str | None = None
    containment: str | None = None
    files_changed: tuple[str, ...] = ()
    evaluation: Evaluation | None = None
    evaluation_seconds: float | None = None
    iteration_seconds: float = 0.0  # of all iterations, warm-up and bare ones included
    measuring: Overhead = field(default_factory=Overhead, metadata=FLAT)
    windows: Windows = field(default_factory=Windows)
    targets: tuple[LimitResult, ...] = ()
    warnings: tuple[str, ...] = ()
