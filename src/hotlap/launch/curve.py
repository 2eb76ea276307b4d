"""A child that runs for what it learns: every episode that ends, and the first losses, go to hotlap as messages.

After enough steps, losses or seconds the target is stopped. Nothing else is measured.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

from hotlap.launch.messages import Progress, Sender
from hotlap.launch.spec import CurveSettings
from hotlap.probe.events import EVENTS, Events
from hotlap.probe.frameworks import frameworks
from hotlap.probe.hooks import plain
from hotlap.probe.hooks.environments import is_evaluation, num_envs
from hotlap.probe.hooks.patching import Around, Finder, Patch, wrap, wrap_family
from hotlap.probe.recorder import see_workers
from hotlap.probe.results import StepReader
from hotlap.probe.stopping import StopProfiling
from hotlap.target.target import Script, System


class CurveProbe:
    """Counts steps, adds up rewards, and stops the target."""

    def __init__(self, settings: CurveSettings, sender: Sender) -> None:
        self._settings, self._sender = settings, sender
        self._returns: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._lengths: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._trains: dict[int, bool] = {}
        self._depth = 0
        self._process = os.getpid()  # environments in processes that it forks are counted where they are stepped from
        self._steps = self._losses = 0
        self._began = time.perf_counter()

    def around_step(self, reader: StepReader) -> Around:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(env: Any, *args: Any, **kwargs: Any) -> Any:
                self._depth += 1
                try:
                    result = original(env, *args, **kwargs)
                finally:
                    self._depth -= 1
                if not self._depth and os.getpid() == self._process:
                    if id(env) not in self._trains:
                        self._trains[id(env)] = not is_evaluation()
                    if self._trains[id(env)]:
                        self._note(env, result, reader)
                return result

            return call

        return around

    def around_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            self._note_loss(tensors)
            return original(tensors, *args, **kwargs)

        return call

    def _note(self, env: Any, result: Any, reader: StepReader) -> None:
        rewards = reader.rewards(env, result)
        self._steps += max(num_envs(env, None, result), len(rewards))
        for i, reward in enumerate(rewards):
            self._returns[id(env), i] += reward
            self._lengths[id(env), i] += 1
        for i in reader.ended(env, result):
            key = (id(env), i)
            self._send(return_=float(self._returns.pop(key, 0.0)), length=self._lengths.pop(key, 0))
        self._stop_if_enough()

    def note_iteration(self, steps: int, episodes: Sequence[float], losses: Sequence[float]) -> None:
        """Of a system: its steps so far, the returns of episodes that ended, and the means of its losses."""
        self._steps = steps
        for value in episodes:
            self._send(return_=float(value))
        if losses:
            self._add_loss(sum(losses))
        self._stop_if_losses_are_enough()
        self._stop_if_enough()

    def _note_loss(self, tensors: Any) -> None:
        first = tensors[0] if isinstance(tensors, (tuple, list)) and tensors else tensors
        if getattr(first, "numel", lambda: 0)() == 1 and self._losses < self._settings.losses:
            self._add_loss(float(first.detach()))
        self._stop_if_losses_are_enough()

    def _add_loss(self, value: float) -> None:
        if self._losses < self._settings.losses:
            self._losses += 1
            self._send(loss=float(value))

    def _stop_if_losses_are_enough(self) -> None:
        if self._losses >= self._settings.losses and not self._settings.episodes:
            raise StopProfiling

    def _stop_if_enough(self) -> None:
        if self._steps >= self._settings.steps or time.perf_counter() - self._began > self._settings.seconds:
            raise StopProfiling

    def _send(self, **fields: Any) -> None:
        try:
            self._sender.send(Progress(self._steps, time.perf_counter() - self._began, **fields))
        except BrokenPipeError:
            raise StopProfiling from None


def _patches(probe: CurveProbe) -> dict[str, list[Patch]]:
    def torch(module: Any, _: Events) -> None:
        wrap(module.autograd, "backward", probe.around_backward)  # a tensor's own ends up there

    patches: dict[str, list[Patch]] = {"torch": [torch]}
    for framework in frameworks():
        for kind in framework.environments:
            patch = kind.wrap_steps(lambda kind: probe.around_step(kind.reader))
            patches.setdefault(kind.module, []).append(patch)
    return patches


def run_script(script: Script, probe: CurveProbe) -> tuple[int, str | None]:
    """Exit code and error of a script that is run for its curve."""
    from hotlap.interventions import intervened
    from hotlap.launch.execute import execute

    Finder(EVENTS, _patches(probe)).install()

    def on_first_step(first: plain.FirstStep) -> None:
        if first.cls is not None:
            wrap_family(first.cls, {first.name: probe.around_step(first.transition.reader)})

    plain.watch(on_first_step)
    see_workers()
    with intervened():
        code, error = execute(script)
    return code, error


def run_system(target: System, probe: CurveProbe) -> tuple[int, str | None]:
    from hotlap import systems
    from hotlap.core.clock import StageClock
    from hotlap.systems.configs import checked, config_from

    system = systems.load(target.name, target.algorithm)
    config = checked(config_from(system, target.config))
    clock = StageClock.for_device(config.device)
    with closing(system.make_env(config)) as env, suppress(StopProfiling):
        state = system.start(config, env)
        while state.env_steps < config.total_steps:
            with clock.iteration():
                seen = system.trainer.iterate(state, config, env, clock)
            clock.take()
            losses = [value for name, value in seen.scalars.items() if name.endswith("loss")]
            probe.note_iteration(state.env_steps, seen.episodes.get("return", ()), losses)
    return 0, None
