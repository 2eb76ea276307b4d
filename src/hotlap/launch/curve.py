"""Runs a user's script, or a system, for what it learns: `python -m hotlap.launch.curve SPEC [its arguments]`.

Every finished episode goes to a file as a line of JSON: environment steps and seconds so far, return and length. So do the
first losses. After enough steps, losses or seconds the script is stopped. Nothing else is measured.
"""

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import numpy as np

from hotlap.interventions import intervened
from hotlap.launch import child
from hotlap.probe.events import EVENTS, Events
from hotlap.probe.hooks import plain as own_environments
from hotlap.probe.hooks.environments import _ended, _evaluates
from hotlap.probe.hooks.patching import Finder, wrap, wrap_family
from hotlap.probe.recorder import Enough, see_workers


class Curve:
    """Counts steps, adds up rewards, and stops the script."""

    def __init__(self, spec: dict[str, Any], file: TextIO) -> None:
        self._spec, self._file = spec, file
        self._returns: defaultdict[tuple[int, int], float] = defaultdict(float)
        self._lengths: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._trains: dict[int, bool] = {}
        self._depth = 0
        self._process = os.getpid()  # environments in processes that it forks are counted where they are stepped from
        self._steps = self._losses = 0
        self._began = time.perf_counter()

    def around_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                result = original(env, *args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth and os.getpid() == self._process:
                if id(env) not in self._trains:
                    self._trains[id(env)] = not _evaluates()
                if self._trains[id(env)]:
                    self._note(env, result)
            return result

        return call

    def around_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            self._note_loss(tensors)
            return original(tensors, *args, **kwargs)

        return call

    def _note(self, env: Any, result: Any) -> None:
        rewards = np.atleast_1d(np.asarray(_rewards(result), dtype=float).ravel())
        self._steps += int(getattr(env, "num_envs", len(rewards)))
        for i, reward in enumerate(rewards):
            self._returns[id(env), i] += float(reward)
            self._lengths[id(env), i] += 1
        for i in _ended(env, result):
            key = (id(env), i)
            self._say(**{"return": self._returns.pop(key, 0.0), "length": self._lengths.pop(key, 0)})
        self._stop_if_enough()

    def note_iteration(self, steps: int, episodes: Sequence[float], losses: Sequence[float]) -> None:
        """Of a system: its steps so far, the returns of episodes that ended, and the means of its losses."""
        self._steps = steps
        for value in episodes:
            self._say(**{"return": float(value)})
        if losses and self._losses < self._spec["losses"]:
            self._losses += 1
            self._say(loss=sum(losses))
        if self._losses >= self._spec["losses"] and not self._spec["episodes"]:
            raise Enough
        self._stop_if_enough()

    def _stop_if_enough(self) -> None:
        if self._steps >= self._spec["steps"] or time.perf_counter() - self._began > self._spec["seconds"]:
            raise Enough

    def _note_loss(self, tensors: Any) -> None:
        first = tensors[0] if isinstance(tensors, tuple | list) and tensors else tensors
        if self._losses < self._spec["losses"] and getattr(first, "numel", lambda: 0)() == 1:
            self._losses += 1
            self._say(loss=float(first.detach()))
        if self._losses >= self._spec["losses"] and not self._spec["episodes"]:
            raise Enough

    def _say(self, **fields: float) -> None:
        line = {"steps": self._steps, "seconds": time.perf_counter() - self._began, **fields}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _rewards(result: Any) -> Any:
    if isinstance(result, tuple) and len(result) >= 3:
        reward = result[1]
        return sum(reward.values()) if isinstance(reward, dict) else reward
    if hasattr(result, "get"):  # a TensorDict
        reward = result.get(("next", "reward"), None)
        return 0.0 if reward is None else reward.detach().cpu().numpy()
    return 0.0


def _patches(curve: Curve) -> dict[str, list[Callable[[ModuleType, Events], None]]]:
    def gymnasium(module: Any, _: Events) -> None:
        wrap_family(module.Env, {"step": curve.around_step})
        wrap_family(module.vector.VectorEnv, {"step": curve.around_step})

    def sb3(module: Any, _: Events) -> None:
        wrap_family(module.VecEnv, {"step": curve.around_step, "step_wait": curve.around_step})

    def torchrl(module: Any, _: Events) -> None:
        wrap_family(module.EnvBase, {"step": curve.around_step, "step_and_maybe_reset": curve.around_step})

    def torch(module: Any, _: Events) -> None:
        wrap(module.autograd, "backward", curve.around_backward)  # a tensor's own ends up there

    return {
        "gymnasium": [gymnasium],
        "gym": [gymnasium],
        "stable_baselines3.common.vec_env.base_vec_env": [sb3],
        "torchrl.envs.common": [torchrl],
        "torch": [torch],
    }


def _run_script(spec: dict[str, Any], curve: Curve) -> int:
    Finder(EVENTS, _patches(curve)).install()
    own_environments.watch(lambda cls, name: wrap_family(cls, {name: curve.around_step}))
    sys.argv = [spec["script"], *sys.argv[2:]]
    see_workers()
    with intervened():
        code, error = child.execute(spec)
    if error:
        print(error, file=sys.stderr)
    return code


def _run_system(spec: dict[str, Any], curve: Curve) -> int:
    from hotlap import systems
    from hotlap.core.clock import StageClock
    from hotlap.target import flags

    system = systems.load(spec["system"], spec["algorithm"])
    config = flags.checked(flags.config_from(system, spec["config"]))
    clock = StageClock.for_device(config.device)
    with closing(system.make_env(config)) as env, suppress(Enough):
        state = system.trainer.start(config, env)
        while state.env_steps < config.total_steps:
            with clock.iteration():
                seen = system.trainer.iterate(state, config, env, clock)
            clock.take()
            losses = [value for name, value in seen.scalars.items() if name.endswith("loss")]
            curve.note_iteration(state.env_steps, seen.episodes.get("return", ()), losses)
    return 0


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    with Path(spec["out"]).open("w") as file:
        code = (_run_system if spec["system"] else _run_script)(spec, Curve(spec, file))
    sys.exit(code)


if __name__ == "__main__":
    main()
