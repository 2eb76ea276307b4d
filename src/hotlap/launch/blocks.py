"""A child that works a block at a time: it warms up, says that it is ready, and waits for a byte before each block.

What a block took goes to hotlap as a message; when a pipe closes, enough was measured. Nothing is written to disk.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field

from hotlap.core import machine, stages
from hotlap.core.contention import Contention
from hotlap.core.counts import DELAYS, ENV_STEPS, EPISODES, ITERATIONS, UPDATES, WINDOWS
from hotlap.core.sample import Sample
from hotlap.launch.messages import BlockDone, Message, Ready, Sender, keep_from_forks
from hotlap.probe import delays
from hotlap.probe.events import EVENTS, WINDOW
from hotlap.probe.hooks.logging import watched_output
from hotlap.probe.recorder import install, see_workers
from hotlap.probe.stopping import StopProfiling
from hotlap.record.blocks import Block
from hotlap.target.target import Script, System

LONG = 0.02  # of a window's time: an evaluation, a checkpoint or logging that takes this
PATIENCE = 30.0  # seconds that a script with torch has to begin learning; then it is measured anyway


@dataclass
class BlockUnderWay:
    """What was done so far in a block."""

    wall: float = 0.0
    paused: float = 0.0
    counts: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    stages: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, sample: Sample, kind: str) -> None:
        """A window or an iteration that was measured."""
        self._count(sample)
        self.counts[kind] += 1
        for path, exclusive in sample.exclusive.items():
            self.stages[path] += exclusive * 1e-9
        attributed = sum(total for path, total in sample.inclusive.items() if stages.parent(path) is None)
        self.stages[stages.UNATTRIBUTED] += (sample.wall - attributed) * 1e-9

    def add_paused(self, sample: Sample) -> None:
        """A window in which hooks were paused."""
        self._count(sample)
        self.paused += sample.wall * 1e-9

    def _count(self, sample: Sample) -> None:
        self.wall += sample.wall * 1e-9
        for what in (ENV_STEPS, UPDATES, EPISODES):
            self.counts[what] += sample.counts.get(what, 0)

    def done(self, queued: float) -> Block:
        """`queued`: the share of its time for which other programs had the core."""
        counts = {**self.counts, DELAYS: float(delays.injected)}
        return Block(self.wall, self.paused, counts, dict(self.stages), machine.rss_of_all(), queued * self.wall)


class Worker:
    """Waits until it may work, and says what it did."""

    def __init__(self, sender: Sender, go: int, seconds: float) -> None:
        self._sender, self._go = sender, go
        keep_from_forks(go)
        self.seconds = seconds
        self.block = BlockUnderWay()
        self._contention = Contention()

    def ready(self) -> None:
        """Warm-up is over; wait for the first block."""
        delays.injected = 0
        self._say(Ready())

    def end_block(self) -> None:
        """If the block has lasted long enough, hand it over and wait for the next."""
        if self.block.wall < self.seconds:
            return
        done, self.block = self.block.done(self._contention.share()), BlockUnderWay()
        delays.injected = 0
        self._say(BlockDone(done))

    def _say(self, message: Message) -> None:
        try:
            self._sender.send(message)
            go = os.read(self._go, 1)
        except BrokenPipeError:
            raise StopProfiling from None
        if not go:
            raise StopProfiling
        self._contention.share()  # the block begins now


class ScriptBlocks:
    """The windows of a script, in blocks: warm-up until learning has begun, if it can learn, and some windows more."""

    def __init__(self, worker: Worker, warmup: int) -> None:
        self.worker = worker
        self._left = warmup
        self._patience = PATIENCE
        self._is_learning = self._is_ready = False
        self._stops_for_more = False  # whether it evaluates, saves or logs for long: a pause would hide that

    def begin(self) -> None:
        EVENTS.start(self.window, window=min(WINDOW, self.worker.seconds / 2))

    def window(self, sample: Sample) -> None:
        if not EVENTS.active:
            return
        if not self._is_ready:
            self._warm_up(sample)
            return
        self.worker.block.add(sample, WINDOWS)
        beside = sum(sample.exclusive.get(path, 0) for path in stages.BESIDE)
        self._stops_for_more = self._stops_for_more or beside > LONG * sample.wall
        cannot_pause = self._stops_for_more or delays.is_on() or EVENTS.cannot_pause
        if cannot_pause or not sample.counts.get(ENV_STEPS) or not sample.counts.get(UPDATES):
            self.worker.end_block()
        else:
            EVENTS.pause(sample.wall * 1e-9, self.paused_window)

    def _warm_up(self, sample: Sample) -> None:
        self._patience -= sample.wall * 1e-9
        self._is_learning = self._is_learning or bool(sample.counts.get(UPDATES)) or "torch" not in sys.modules
        if self._is_learning or self._patience < 0:
            self._left -= 1
        if self._left < 0:
            self._is_ready = True
            self.worker.ready()

    def paused_window(self, sample: Sample) -> None:
        self.worker.block.add_paused(sample)
        self.worker.end_block()


def run_script(script: Script, worker: Worker, warmup: int) -> tuple[int, str | None]:
    """Exit code and error of a script that works in blocks."""
    from hotlap.interventions import intervened
    from hotlap.launch.execute import execute

    install()
    see_workers()
    ScriptBlocks(worker, warmup).begin()
    with intervened(), watched_output(EVENTS):
        code, error = execute(script)
    EVENTS.active, EVENTS.inside = False, True
    if error or code:
        return 1, error or f"the script ended with exit code {code}"
    return 0, None


def run_system(target: System, worker: Worker, warmup: int) -> tuple[int, str | None]:
    """Iterations of a system, in blocks."""
    from contextlib import closing, suppress

    from hotlap import systems
    from hotlap.core.clock import StageClock
    from hotlap.launch.system import work_of
    from hotlap.systems.configs import checked, config_from

    system = systems.load(target.name, target.algorithm)
    config = checked(config_from(system, target.config))
    clock = StageClock.for_device(config.device)
    left = warmup
    with closing(system.make_env(config)) as env, suppress(StopProfiling):
        work = work_of(system, config, env, clock, target.env_only)
        while left >= 0:
            left -= work.ready()
            work.iterate()
        worker.ready()
        while True:
            with clock.iteration():
                work.iterate()
            for sample in clock.take(wait=True):
                worker.block.add(sample, ITERATIONS)
            worker.end_block()
    return 0, None
