"""The loop around a trainer's iterations: record, progress, TensorBoard, evaluation, checkpoints, resume, Ctrl-C."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hotlap import machine, stages, stats
from hotlap.clock import StageClock, stage_cost
from hotlap.errors import RecordError, TargetFailed
from hotlap.record import Recorded, Run
from hotlap.systems import System
from hotlap.train import checkpoint

EVALUATION_SEED = 1_000_003  # far from the seeds that training uses
TRACED = 2  # iterations, after the one in which learning began, whose every span is kept for the trace
GPU_EVENTS_EVERY = 50  # iterations between those that record CUDA events
MAY_CHANGE = {"total_steps", "device", "env_threads", "torch_threads"}  # config fields that a resumed run may change

OnProgress = Callable[[dict[str, float]], None]  # called after each iteration with what a progress bar shows


def train(
    system: System,
    config: Any,
    out: Path | None = None,
    resume: Path | None = None,
    checkpoint_seconds: float = 15.0,
    evaluate_every: int = 0,
    evaluation_episodes: int = 200,
    on_progress: OnProgress = lambda shown: None,
) -> Run:
    """Train to `config.total_steps` and evaluate. An interrupted or killed run keeps its record and can be resumed."""
    if evaluation_episodes < 1 or evaluate_every < 0 or checkpoint_seconds < 0:
        raise ValueError("evaluation-episodes must be at least 1, evaluate-every and checkpoint-seconds at least 0")

    def evaluate() -> dict[str, Any]:
        with closing(system.make_env(config, evaluation_episodes)) as arena:
            return summarize_evaluation(system.trainer.evaluate(state, arena, EVALUATION_SEED), system.score)

    def save() -> None:
        arrays, numbers = system.trainer.save_state(state, env)
        checkpoint.save(run.path, arrays, numbers, asdict(config))

    with closing(system.make_env(config)) as env:
        state = system.trainer.start(config, env)
        run = _resume(system, config, state, env, resume) if resume else _create(system, config, out)
        options = {"checkpoint_seconds": checkpoint_seconds, "evaluate_every": evaluate_every}
        run.update(options={**options, "evaluation_episodes": evaluation_episodes})
        clock = StageClock.for_device(config.device, elapsed=run.elapsed)
        saved = float("-inf")  # the first iteration ends with a checkpoint
        learned = 0  # iterations since learning began
        watch = machine.GpuWatch(config.device)
        with recording(run), stop_requests() as stop, watch, _tensorboard(run.path, state) as log:
            while state.env_steps < config.total_steps and not stop.is_set():
                spans = 0 < learned <= TRACED
                traced = spans or (clock.times_gpu and learned % GPU_EVENTS_EVERY == 1)
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
                write_samples(run, clock, "traced" if traced else "train", spans)
                on_progress({**shown, "env_steps": state.env_steps, "total_steps": config.total_steps})
            save()
            run.update(usage={"peak_rss": machine.peak_rss(), "gpu_busy": watch.busy_share})
            if stop.is_set():
                run.finish("interrupted")
                return run
        with recording(run):  # Ctrl-C now stops at once: everything is saved
            on_progress({"evaluating": evaluation_episodes})
            began = time.monotonic()
            run.finish("done", evaluation=evaluate(), evaluation_seconds=time.monotonic() - began)
    return run


def _create(system: System, config: Any, out: Path | None) -> Run:
    facts = {
        "gpu_timing": StageClock.for_device(config.device).policy,
        "stage_cost": stage_cost(),
        "algorithm": system.algorithm,
    }
    return Run.create("train", system.name, asdict(config), machine.facts(), out, **facts)


def _resume(system: System, config: Any, state: Any, env: Any, folder: Path) -> Run:
    """Put `state` and `env` where the run's checkpoint was taken; without one, the run begins again."""
    facts = {"config": asdict(config), "machine": machine.facts(), "stage_cost": stage_cost()}
    if (folder / checkpoint.NAME).exists():
        arrays, numbers, saved = checkpoint.load(folder)
        asked = json.loads(json.dumps(asdict(config)))  # as the saved one looks: lists for tuples
        changed = sorted(name for name in asked if saved.get(name) != asked[name] and name not in MAY_CHANGE)
        if changed:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
            raise RecordError(f"a run cannot be resumed with another {flags}; start a new one")
        system.trainer.load_state(state, env, arrays, numbers)
    return Run.reopen(folder, keep=state.iterations, **facts)


def write_samples(run: Run, clock: StageClock, phase: str, spans: bool = False) -> None:
    """Move the clock's samples to the record, with or without their spans; waits for the GPU if they were traced."""
    for sample in clock.take(wait=True):
        if not spans:
            sample.events = []
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
    except RecordError as error:  # a full disk, perhaps: say so in the record if that still works
        with suppress(RecordError):
            run.finish("failed", error=str(error))
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        run.finish("failed", error=said)
        raise TargetFailed(f"{run.header['target']} failed: {said.splitlines()[0]} (its record: {run.path})") from error


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


def _scalars(metrics: Any, state: Any, evaluation: dict[str, Any] | None) -> dict[str, float]:
    shown = {f"episode/{name}": float(np.mean(values)) for name, values in metrics.episodes.items()}
    shown |= metrics.scalars
    shown["train/updates"] = state.updates
    if evaluation:
        shown |= {f"evaluation/{name}": evaluation[name] for name in ("mean_return", "mean_score")}
    return shown


@contextmanager
def _tensorboard(folder: Path, state: Any) -> Iterator[Callable[[dict[str, float], int], None]]:
    """A function that logs scalars as TensorBoard events under the run's folder."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=state.env_steps + 1 if state.env_steps else None)

    def log(scalars: dict[str, float], step: int) -> None:
        for name, value in scalars.items():
            writer.add_scalar(name, value, step)

    try:
        yield log
    finally:
        writer.close()
