"""`run.json`: what ran, how and where, and what was seen beside the samples. One flat object; nouns here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hotlap.core.words import Word
from hotlap.record.codec import FLAT
from hotlap.record.investigation import InvestigationState
from hotlap.record.learner import Learners
from hotlap.record.machine import Machine
from hotlap.record.observed import Observed

SCHEMA = "hotlap.run/2"
READABLE = ("hotlap.run/1", SCHEMA)


class Verb(Word):
    TRAIN = "train"
    PROFILE = "profile"
    COMPARE = "compare"
    SWEEP = "sweep"
    INVESTIGATE = "investigate"
    GATE = "gate"
    DIAGNOSE = "diagnose"


class Status(Word):
    RUNNING = "running"
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"  # never on disk: the record says "running", and its process is gone


@dataclass(frozen=True)
class Process:
    """The process that writes a run."""

    pid: int = 0
    started: float = 0.0  # seconds since 1970: a process number used again is another process


@dataclass(frozen=True)
class Setup:
    """How a profile or a training run was measured."""

    gpu_timing: str | None = None
    stage_cost: float | None = None  # seconds that entering a stage costs here; of a script, `observed.event_cost`
    targets: tuple[str, ...] = ()  # limits such as "iteration_time<5s"
    env_only: bool = False
    layout: str | None = None  # of the environments: one process, workers, or the GPU
    graphs: str | None = None  # what CUDA graphs held, and why not more
    containment: str | None = None  # how children are kept from outliving hotlap
    scratch: str | None = None  # where a script ran: in place, in an overlay, in a copy


@dataclass(frozen=True)
class ModuleTime:
    """An `nn.Module`: seconds summed over its calls. A container's time includes its children's."""

    name: str
    kind: str
    parameters: int
    depth: int
    calls: int = 0
    forward: float = 0.0
    backward: float = 0.0


@dataclass(frozen=True)
class FunctionTime:
    """A function as cProfile saw it."""

    where: str
    function: str
    calls: int
    own_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class Passes:
    """Extra passes that were asked for."""

    modules: tuple[ModuleTime, ...] = ()
    functions: tuple[FunctionTime, ...] = ()


@dataclass(frozen=True)
class MetricMean:
    """One of a game's own metrics, over the episodes of an evaluation."""

    name: str
    mean: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class BotScore:
    """Games against a bot: 1 for a win, 0 for a loss, half for a draw."""

    bot: str
    mean_score: float
    ci95: tuple[float, float]
    games: int
    metrics: tuple[MetricMean, ...] = ()  # the game's own, such as points


@dataclass(frozen=True)
class CaseReturn:
    """The episodes of one case of an evaluation, where a system has several: the mean return and its spread."""

    case: str
    episodes: int
    mean_return: float
    ci95: tuple[float, float]  # of the mean
    std: float  # of an episode's return


@dataclass(frozen=True)
class Evaluation:
    """Episodes at the end of training, with 95% intervals: of greedy play, or `sampled` from the policy."""

    episodes: int
    mean_return: float
    ci95: tuple[float, float]
    mean_score: float
    score_ci95: tuple[float, float]
    mean_length: float
    rating: float | None = None  # against bots
    against: tuple[BotScore, ...] = ()
    score_name: str = "score"  # which metric the score is
    metrics: tuple[MetricMean, ...] = ()  # the others
    sampled: bool = False
    cases: tuple[CaseReturn, ...] = ()  # of all episodes, where a system is evaluated by cases


@dataclass(frozen=True)
class Training:
    algorithm: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    processes: int = 1  # that train together
    resumed: tuple[dict[str, Any], ...] = ()
    evaluation: Evaluation | None = None
    evaluation_seconds: float | None = None


@dataclass(frozen=True)
class Interleaved:
    """What a comparison or a sweep is about; the plan and the variants are its config."""

    knobs: tuple[str, ...] = ()
    delay: str | None = None  # the stage that was slowed down
    until: str | None = None  # what a growth sweep counts
    counts: tuple[float, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)  # variants that failed, and how
    nets: dict[str, Any] | None = None


@dataclass(frozen=True)
class Header:
    id: str
    verb: Verb
    target: str
    status: Status
    created: str
    process: Process
    config: dict[str, Any]
    machine: Machine
    schema: str = SCHEMA
    finished: str | None = None
    error: str | None = None
    exit_code: int | None = None
    setup: Setup = field(default_factory=Setup, metadata=FLAT)
    observed: Observed = field(default_factory=Observed, metadata=FLAT)
    learners: Learners | None = None  # where others than the script's own process learn
    passes: Passes = field(default_factory=Passes, metadata=FLAT)
    training: Training = field(default_factory=Training, metadata=FLAT)
    interleaved: Interleaved = field(default_factory=Interleaved, metadata=FLAT)
    investigation: InvestigationState = field(default_factory=InvestigationState, metadata=FLAT)

    @property
    def is_script(self) -> bool:
        return "script" in self.config
