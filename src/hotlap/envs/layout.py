"""How many worker processes step environments fastest, found by measuring.

Messages cost some tens of microseconds per worker and step, so light environments are fastest in this process; heavy ones want
a worker per core; those that wait rather than compute want more workers than cores.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from hotlap.core import machine
from hotlap.envs.buffers import Arrays
from hotlap.envs.serial import SerialEngine
from hotlap.envs.spec import EnvSpec
from hotlap.envs.workers import PATIENCE, WorkerEngine

WORTH = 1e-3  # seconds of a vector step in this process below which no worker is tried
SAMPLE = 8  # environments that are timed in this process
SECONDS = 0.5  # for which each layout is timed, at least
STEPS = 3  # vector steps that each layout is timed for, at least
WORTHWHILE = 0.95  # share of the time with fewer workers that more workers must beat
BUSY = 0.5  # share of a step that is computing, above which more workers than cores are not tried


@dataclass(frozen=True)
class Placement:
    """Where environments in Python are to run, and how they are told what to do."""

    workers: int
    async_factor: int
    depth: int
    patience: float = PATIENCE
    transport: str = "shared"  # or pipe: see transport.py


IN_TURN = Placement(0, 1, 2)


@dataclass(frozen=True)
class Layout:
    """How many workers; 0: this process. `seconds` per vector step, as measured, by number of workers. Or on a GPU."""

    workers: int
    seconds: dict[int, float] = field(default_factory=dict)
    device: str = ""

    def __str__(self) -> str:
        if self.device:
            return f"{self.device}, a thread per environment"
        times = ", ".join(f"{_name(workers)} {1e3 * seconds:,.3g} ms" for workers, seconds in self.seconds.items())
        return f"{_name(self.workers)}{f' (per vector step: {times})' if times else ''}"


def _name(workers: int) -> str:
    return f"{workers} worker{'s' * (workers > 1)}" if workers else "one process"


def pick(
    name: str,
    make: Callable[[], Any],
    kind: type[SerialEngine],
    spec: EnvSpec,
    num_envs: int,
    place: Placement = IN_TURN,
) -> Layout:
    """The fastest number of workers for `num_envs` environments. Environments made for this are closed again."""
    envs = [make() for _ in range(min(num_envs, SAMPLE))]
    arrays = Arrays(spec, len(envs) * spec.agents, 2)
    engine = kind(name, envs, arrays.actions, arrays.buffers)
    try:
        wall, cpu = _time(engine, arrays, envs[0].action_space)
    finally:
        engine.close()
    seconds = {0: wall * num_envs / len(envs)}
    if seconds[0] < WORTH:
        return Layout(0, seconds)
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # that torchrun started on this machine
    best, groups, number = 0, place.async_factor, max(1, int(machine.usable_cores()) // local_processes)
    while (workers := min(num_envs // groups, -(-number // groups)) * groups) not in seconds:
        rows = num_envs * spec.agents
        with_workers = WorkerEngine(
            name, make, kind, spec, rows, 2, workers, patience=place.patience, transport=place.transport
        )
        try:
            seconds[workers] = _time(with_workers, with_workers.arrays, envs[0].action_space)[0]
        finally:
            with_workers.close()
        if seconds[workers] > WORTHWHILE * seconds[best]:
            break
        best = workers
        if cpu > BUSY * wall:
            break
        number *= 4  # environments that wait leave their core to others
    return Layout(best, seconds)


def _time(engine: Any, arrays: Arrays, space: Any) -> tuple[float, float]:
    """Median wall time, and mean CPU time of this process, of a step of all rows with random legal actions."""
    engine.reset(np.arange(engine.num_rows, dtype=np.uint64), None, 0)
    random, walls, cpu = np.random.default_rng(0), [], 0.0
    space.seed(0)
    for number in range(10_000):
        arrays.actions[:] = _actions(space, engine, arrays.buffers[number % 2].mask, random)
        begin, cpu_begin = time.perf_counter(), time.process_time()
        engine.start(0, (number + 1) % 2)
        engine.wait()
        walls.append(time.perf_counter() - begin)
        cpu += time.process_time() - cpu_begin
        if len(walls) > STEPS and (sum(walls) > SECONDS or (sum(walls) > 100 * WORTH and np.median(walls) < WORTH / 10)):
            break
    return float(np.median(walls[1:])), cpu / len(walls)


def _actions(space: Any, engine: Any, mask: NDArray[np.bool_], random: np.random.Generator) -> NDArray[Any]:
    if not engine.masked:
        return np.array([space.sample() for _ in range(engine.num_rows)])
    return draw_legal(space, mask, random)


def draw_legal(space: Any, mask: NDArray[np.bool_], random: np.random.Generator) -> NDArray[Any]:
    """Random actions that the masks [rows, choices] allow, of a discrete or multi-discrete space."""
    drawn = random.random(mask.shape) * mask
    if isinstance(space, Discrete):
        actions: NDArray[Any] = drawn.argmax(1)
        return actions
    return np.stack([part.argmax(1) for part in np.split(drawn, np.cumsum(space.nvec)[:-1], 1)], 1)
