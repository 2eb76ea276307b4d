"""The loop around a trainer's iterations: record, progress, TensorBoard, evaluation, checkpoints, resume, Ctrl-C."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from hotlap import machine, stages, stats
from hotlap.clock import StageClock, stage_cost
from hotlap.record import Recorded, Run
from hotlap.systems import System
from hotlap.train import checkpoint

EVALUATION_SEED = 1_000_003  # far from the seeds that training uses
TRACED = 2  # iterations, after the one in which learning began, whose every span is kept for the trace

Report = Callable[[dict[str, float]], None]  # called after each iteration with what a progress bar shows


def train(
    system: System,
    config: Any,
    out: Path | None = None,
    resume: Path | None = None,
    checkpoint_seconds: float = 60.0,
    evaluate_every: int = 0,
    evaluation_episodes: int = 200,
    report: Report = lambda shown: None,
) -> Run:
    """Train to `config.total_steps` and evaluate. An interrupted run keeps its record and can be resumed."""
    clock = StageClock.for_device(config.device)
    env = system.make_env(config)
    state = system.trainer.start(config, env)
    if resume:
        arrays, numbers, _ = checkpoint.load(resume)
        system.trainer.load_state(state, env, arrays, numbers)
        run = Run.reopen(resume, keep=state.iterations)
        run.update(config=asdict(config))
    else:
        facts = {"gpu_timing": clock.policy, "stage_cost": stage_cost()}
        run = Run.create("train", system.name, asdict(config), machine.facts(), out, **facts)

    def save() -> None:
        arrays, numbers = system.trainer.save_state(state, env)
        checkpoint.save(run.path, arrays, numbers, asdict(config))

    def evaluate() -> dict[str, Any]:
        played = system.trainer.evaluate(state, system.make_env(config, evaluation_episodes), EVALUATION_SEED)
        return summarize_evaluation(played, system.score)

    saved = time.monotonic()
    learned = 0  # iterations since learning began
    with recording(run), stop_requests() as stop, machine.GpuWatch() as watch, _tensorboard(run.path, state) as log:
        while state.env_steps < config.total_steps and not stop.is_set():
            traced = 0 < learned <= TRACED
            with clock.iteration(traced):
                metrics = system.trainer.iterate(state, config, env, clock)
                evaluation = None
                if evaluate_every and state.iterations % evaluate_every == 0:
                    with clock.stage(stages.EVALUATE):
                        evaluation = evaluate()
                with clock.stage(stages.LOG):
                    shown = _scalars(metrics, state, evaluation)
                    log(shown, state.env_steps)
                if time.monotonic() - saved > checkpoint_seconds:
                    with clock.stage(stages.CHECKPOINT):
                        save()
                    saved = time.monotonic()
            learned += system.trainer.learning(state, config)
            write_samples(run, clock, "traced" if traced else "train", wait=traced)
            report({**shown, "env_steps": state.env_steps, "total_steps": config.total_steps})
        write_samples(run, clock, "train", wait=True)
        save()
        usage = {"peak_rss": machine.peak_rss(), "gpu_busy": watch.busy_share}
        if stop.is_set():
            run.finish("interrupted", usage=usage)
        else:
            run.finish("done", usage=usage, evaluation=evaluate())
    env.close()
    return run


def config_from(kind: type, saved: dict[str, Any]) -> Any:
    """A config object from its saved form; fields this version does not know are refused."""
    known = {f.name for f in fields(kind)}
    unknown = sorted(set(saved) - known)
    if unknown:
        raise ValueError(f"the saved config has unknown fields: {', '.join(unknown)}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()})


def write_samples(run: Run, clock: StageClock, phase: str, wait: bool = False) -> None:
    """Move the clock's finished samples to the record."""
    for sample in clock.take(wait):
        run.append(Recorded(phase, sample, machine.rss(), machine.gpu_memory()))


def summarize_evaluation(played: dict[str, Any], score: str) -> dict[str, Any]:
    """Mean return and score of the episodes, with 95% intervals."""
    low, high = stats.bootstrap_interval(played["return"])
    score_low, score_high = stats.bootstrap_interval(played[score])
    return {
        "episodes": len(played["return"]),
        "mean_return": float(played["return"].mean()),
        "ci95": [low, high],
        "mean_score": float(played[score].mean()),
        "score_ci95": [score_low, score_high],
        "mean_length": float(played["length"].mean()),
    }


@contextmanager
def recording(run: Run) -> Iterator[None]:
    """Mark the record as failed or interrupted if the work inside ends so."""
    try:
        yield
    except KeyboardInterrupt:
        run.finish("interrupted")
        raise
    except Exception as error:
        run.finish("failed", error=f"{type(error).__name__}: {error}")
        raise


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """Ctrl-C or a polite kill asks to stop after the current iteration; the second time it stops at once."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _scalars(metrics: Any, state: Any, evaluation: dict[str, Any] | None) -> dict[str, float]:
    shown = {f"episode/{name}": float(np.mean(values)) for name, values in metrics.episodes.items()}
    shown["train/epsilon"] = metrics.epsilon
    shown["train/updates"] = state.updates
    if metrics.loss is not None:
        shown["train/loss"] = metrics.loss
    if evaluation:
        shown |= {f"evaluation/{name}": evaluation[name] for name in ("mean_return", "mean_score")}
    return shown


@contextmanager
def _tensorboard(folder: Path, state: Any) -> Iterator[Callable[[dict[str, float], int], None]]:
    """A function that logs scalars as TensorBoard events under the run's folder."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=state.env_steps or None)

    def log(scalars: dict[str, float], step: int) -> None:
        for name, value in scalars.items():
            writer.add_scalar(name, value, step)

    try:
        yield log
    finally:
        writer.close()
