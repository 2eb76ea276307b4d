"""The loop around a trainer's iterations: record, progress, TensorBoard, evaluation, checkpoints, resume, Ctrl-C."""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import machine, stages, stats
from hotlap.core.clock import StageClock, stage_cost
from hotlap.core.errors import HotlapError, RecordError, TargetFailed
from hotlap.core.text import one_line
from hotlap.record import episodes
from hotlap.record.header import BotScore, CaseReturn, Evaluation, MetricMean, Setup, Status, Training, Verb
from hotlap.record.lines import Recorded
from hotlap.record.machine import this_machine
from hotlap.record.observed import Usage
from hotlap.record.run import Run
from hotlap.record.run import load as load_run
from hotlap.train import checkpoint, finite, parallel
from hotlap.train.evaluation import Played, by_case
from hotlap.train.rating import score_interval
from hotlap.train.system import RLSystem

EVALUATION_SEED = 1_000_003  # far from the seeds that training uses
TRACED = 2  # iterations, after the one in which learning began, whose every span is kept for the trace
GPU_EVENTS_EVERY = 50  # iterations between those that record CUDA events
# config fields that a resumed run may change
MAY_CHANGE = frozenset(
    {
        "total_steps",
        "device",
        "env_threads",
        "torch_threads",
        "workers",
        "async_factor",
        "transport",
        "env_timeout",
        "env_device",
        "graphs",
    }
)

OnProgress = Callable[[dict[str, Any]], None]  # called after each iteration with what a progress bar shows


@dataclass(frozen=True)
class Options:
    """How a training run is watched and saved."""

    checkpoint_seconds: float = 15.0
    checkpoint_every: int = 0  # iterations; 0: by time
    evaluate_every: int = 0  # iterations; 0: only at the end
    monitor_every: int = 1  # iterations between entries in TensorBoard
    evaluation_episodes: int = 200
    wandb: str | None = None  # a project of Weights & Biases to log to
    evaluation_sampled: bool = False  # draw actions from the policy instead of taking the most probable ones

    def __post_init__(self) -> None:
        if self.evaluation_episodes < 1 or self.evaluate_every < 0 or self.checkpoint_seconds < 0:
            raise ValueError("evaluation-episodes must be at least 1, evaluate-every and checkpoint-seconds at least 0")
        if self.monitor_every < 1 or self.checkpoint_every < 0:
            raise ValueError("monitor-every must be at least 1, checkpoint-every at least 0")

    def checkpoint_is_due(self, iterations: int, since: float) -> bool:
        """After so many iterations, and so many seconds since the last one (none yet: infinitely many)."""
        if not self.checkpoint_every or math.isinf(since):
            return since > self.checkpoint_seconds
        return iterations % self.checkpoint_every == 0


def train(
    system: RLSystem,
    config: Any,
    out: Path | None = None,
    resume: Path | None = None,
    options: Options | None = None,
    on_progress: OnProgress = lambda shown: None,
) -> Run | None:
    """Train to `config.total_steps` and evaluate. An interrupted or killed run keeps its record and can be resumed.

    Of several processes that train together (see `parallel`) the first keeps the record; the others return None.
    """
    options = options or Options()
    share = parallel.join(config)
    try:
        with closing(system.make_env(share)) as env:
            state = system.start(share, env)
            if resume:
                restore(system, config, state, env, resume)
                env.steps = state.env_steps // (env.num_envs * parallel.world())
            if parallel.rank():
                _follow(system, share, state, env)
                return None
            run = _reopen(config, state, resume) if resume else _create(system, config, out)
            run.update(
                setup=replace(run.header.setup, layout=str(env.layout)),
                training=replace(run.header.training, options=asdict(options), processes=parallel.world()),
            )
            on_progress({"layout": str(env.layout)} if share.workers < 0 and not share.turbo else {})
            return _lead(system, config, share, state, env, run, options, on_progress)
    finally:
        parallel.leave()


def _lead(
    system: RLSystem, config: Any, share: Any, state: Any, env: Any, run: Run, options: Options, on_progress: OnProgress
) -> Run:
    """Train, and keep the record."""

    def evaluate() -> Evaluation:
        # in the layout that training found best
        with closing(system.make_arena(replace(share, workers=env.layout.workers), options.evaluation_episodes)) as arena:
            played = evaluate_system(system, state, arena, EVALUATION_SEED, options.evaluation_sampled)
        episodes.write(run.path, episodes.Kept(system.source(share), played.episodes))
        return replace(summarize_evaluation(played, system.score), sampled=options.evaluation_sampled)

    def save() -> None:
        arrays, numbers = system.trainer.save_state(state, env)
        finite.check_state(arrays)
        checkpoint.save(run.path, parallel.gather(arrays, share.device), numbers, _source(system, config, env))

    clock = StageClock.for_device(share.device, elapsed=run.elapsed)
    saved = float("-inf")  # the first iteration ends with a checkpoint
    learned = 0  # iterations since learning began
    watch = machine.GpuWatch(share.device)
    stopped = False
    with recording(run), stop_requests() as stop, watch, _log(run, state, options.wandb) as log:
        while state.env_steps < config.total_steps and not stopped:
            spans = 0 < learned <= TRACED
            traced = spans or (clock.times_gpu and learned % GPU_EVENTS_EVERY == 1)
            with clock.iteration(traced):
                metrics = system.trainer.iterate(state, share, env, clock)
                evaluation = None
                if options.evaluate_every and state.iterations % options.evaluate_every == 0:
                    with clock.stage(stages.EVALUATE):
                        evaluation = evaluate()
                with clock.stage(stages.LOG):
                    shown = _scalars(metrics, state, evaluation)
                    rare = evaluation is not None or any(name.startswith("weights/") for name in metrics.scalars)
                    if state.iterations % options.monitor_every == 0 or rare:
                        log(shown, state.env_steps)
                due = options.checkpoint_is_due(state.iterations, time.monotonic() - saved)
                stopped, due = parallel.any_of(stop.is_set(), due, device=share.device)
                if due:
                    with clock.stage(stages.CHECKPOINT):
                        save()
                    saved = time.monotonic()
            learned += system.trainer.learning(state, share)
            write_samples(run, clock, "traced" if traced else "train", spans)
            on_progress({**shown, "env_steps": state.env_steps, "total_steps": config.total_steps})
        save()
        usage = Usage(machine.peak_rss(), watch.busy_share)
        setup = replace(run.header.setup, graphs=str(state.graphs or "") or None, gpu_timing=clock.policy)
        run.update(observed=replace(run.header.observed, usage=usage), setup=setup)
        if stopped:
            run.finish(Status.INTERRUPTED)
            return run
    with recording(run):  # Ctrl-C now stops at once: everything is saved
        on_progress({"evaluating": options.evaluation_episodes})
        began = time.monotonic()
        evaluation = evaluate()
        seconds = time.monotonic() - began
        run.finish(training=replace(run.header.training, evaluation=evaluation, evaluation_seconds=seconds))
    return run


def _follow(system: RLSystem, share: Any, state: Any, env: Any) -> None:
    """Train with the process that keeps the record."""
    clock = StageClock.for_device(share.device)
    stopped = False
    with stop_requests() as stop:
        while state.env_steps < share.total_steps and not stopped:
            with clock.iteration():
                system.trainer.iterate(state, share, env, clock)
            clock.take()
            stopped, due = parallel.any_of(stop.is_set(), False, device=share.device)
            if due:
                parallel.gather(system.trainer.save_state(state, env)[0], share.device)
        parallel.gather(system.trainer.save_state(state, env)[0], share.device)


def _create(system: RLSystem, config: Any, out: Path | None) -> Run:
    setup = Setup(gpu_timing=StageClock.for_device(config.device).policy, stage_cost=stage_cost())
    training = Training(algorithm=system.algorithm)
    return Run.create(Verb.TRAIN, system.name, asdict(config), this_machine(), out, setup=setup, training=training)


def _source(system: RLSystem, config: Any, env: Any) -> checkpoint.Source:
    return checkpoint.Source(system.name, system.algorithm, asdict(config), env.env_spec)


def restore(system: RLSystem, config: Any, state: Any, env: Any, folder: Path) -> None:
    """Put `state` and `env` where the run's checkpoint was taken; without one, the run begins again.

    A checkpoint that does not fit is refused, and both are left as they are.
    """
    if not (folder / checkpoint.NAME).exists():
        return
    found = checkpoint.load(folder)
    checkpoint.check_source(found, _source(system, config, env), MAY_CHANGE)
    arrays, numbers = system.trainer.save_state(state, env)
    fresh = {name: np.array(array) for name, array in arrays.items()}  # copies: those are views of the state
    try:
        saved = parallel.own_part(found.arrays)
    except ValueError as error:
        raise RecordError(f"{found.path} does not fit this run: {one_line(str(error))}") from error
    checkpoint.check_fits(found, saved, fresh, numbers, system.trainer.VARYING)
    try:
        system.trainer.load_state(state, env, saved, found.numbers)
    except (RuntimeError, ValueError, LookupError, TypeError) as error:  # a state that torch or an environment refuses
        system.trainer.load_state(state, env, fresh, numbers)
        raise RecordError(f"{found.path} does not fit this run: {one_line(str(error))}") from error


def _reopen(config: Any, state: Any, folder: Path) -> Run:
    setup = replace(load_run(folder).header.setup, stage_cost=stage_cost())
    return Run.reopen(folder, keep=state.iterations, config=asdict(config), machine=this_machine(), setup=setup)


def write_samples(run: Run, clock: StageClock, phase: str, spans: bool = False) -> None:
    """Move the clock's samples to the record, with or without their spans; waits for the GPU if they were traced."""
    for sample in clock.take(wait=True):
        if not spans:
            sample.events = []
        run.append(Recorded(phase, sample, machine.rss(), machine.gpu_memory()))


def evaluate_system(system: RLSystem, state: Any, arena: Any, seed: int, sampled: bool = False) -> Played:
    """An episode in each row of `arena`; where a system has several cases, one of each case."""

    def play_case(seed: int, chosen: Mapping[str, Any] | None) -> Played:
        played: Played = system.trainer.evaluate(state, arena, seed, sampled, chosen)
        return played

    return by_case(play_case, system.cases, seed) if system.cases else play_case(seed, None)


def summarize_evaluation(played: Played, score: str) -> Evaluation:
    """Mean return, score and other metrics of the episodes, with 95% intervals; against bots, the score against each and the
    rating."""
    name = next(name for name in ("score", score, "return") if name in played.columns)
    scores = played[name]
    return Evaluation(
        episodes=len(played["return"]),
        mean_return=float(played["return"].mean()),
        ci95=stats.bootstrap_interval(played["return"]),
        mean_score=float(scores.mean()),
        score_ci95=_interval(scores),
        mean_length=float(played["length"].mean()),
        rating=played.rating,
        against=tuple(
            BotScore(bot, float(games["score"].mean()), score_interval(games["score"]), len(games["score"]), _metrics(games))
            for bot, games in played.against.items()
        ),
        score_name=name,
        metrics=_metrics(played.columns, name),
        cases=tuple(
            CaseReturn(case, len(values), float(values.mean()), stats.bootstrap_interval(values), float(values.std()))
            for case, values in played.cases.items()
        ),
    )


def _metrics(columns: dict[str, NDArray[np.float64]], score: str = "score") -> tuple[MetricMean, ...]:
    return tuple(
        MetricMean(metric, float(values.mean()), _interval(values))
        for metric, values in columns.items()
        if metric not in ("return", "length", score)
    )


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Of the mean. Of zeros and ones: Wilson's, which is not a point where all are the same."""
    return score_interval(values) if np.isin(values, (0.0, 1.0)).all() else stats.bootstrap_interval(values)


@contextmanager
def recording(run: Run) -> Iterator[None]:
    """Mark the record as failed or interrupted if the work inside ends so."""
    try:
        yield
    except KeyboardInterrupt:
        run.finish(Status.INTERRUPTED)
        raise
    except RecordError as error:  # a full disk, perhaps: say so in the record if that still works
        with suppress(RecordError):
            run.finish(Status.FAILED, error=str(error))
        raise
    except Exception as error:
        message = str(error) if isinstance(error, HotlapError) else f"{type(error).__name__}: {error}"
        if type(error).__name__ == "OutOfMemoryError":  # torch's, of a GPU
            message = f"the GPU has too little memory: use fewer environments, a shorter horizon, smaller minibatches. {error}"
        run.finish(Status.FAILED, error=message)
        details = error.details if isinstance(error, HotlapError) else ""
        raise TargetFailed(
            f"{run.header.target} failed: {message.splitlines()[0]} (its record: {run.path})", details
        ) from error


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """Ctrl-C or a polite kill asks to stop after the current iteration; the second time it stops at once."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        sys.stderr.write("\nhotlap: stopping after this iteration; again to stop at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _scalars(metrics: Any, state: Any, evaluation: Evaluation | None) -> dict[str, float]:
    shown = {f"episode/{name}": mean for name, mean in metrics.means.items()}
    shown |= metrics.scalars
    shown["train/updates"] = state.updates
    if evaluation:
        shown |= {"evaluation/mean_return": evaluation.mean_return, "evaluation/mean_score": evaluation.mean_score}
    return shown


@contextmanager
def _log(run: Run, state: Any, project: str | None) -> Iterator[Callable[[dict[str, float], int], None]]:
    """A function that logs scalars as TensorBoard events under the run's folder, and to Weights & Biases if asked for."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from torch.utils.tensorboard import SummaryWriter

    board = SummaryWriter(str(run.path / "tensorboard"), purge_step=state.env_steps + 1 if state.env_steps else None)
    remote = None
    if project:
        import wandb

        remote = wandb.init(project=project, id=run.path.name, resume="allow", config=run.header.config, dir=run.path)

    def log(scalars: dict[str, float], step: int) -> None:
        for name, value in scalars.items():
            board.add_scalar(name, value, step)
        if remote is not None:
            remote.log(scalars, step=step)

    try:
        yield log
    finally:
        board.close()
        if remote is not None:
            remote.finish()
