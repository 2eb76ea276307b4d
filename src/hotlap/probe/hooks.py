"""Hooks that turn what a script does into events of the timeline.

A package is hooked when the script has imported it, never before: a script without gymnasium does not get gymnasium. Hooks are
thin: they call the original with the original arguments and return what it returned. What generic hooks cannot see is added by
one short adapter per framework.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from hotlap import stages
from hotlap.probe.timeline import RESET, STEP, STORE, Timeline

Patch = Callable[[ModuleType, Timeline], None]


def install(timeline: Timeline) -> None:
    """Hook every package in PATCHES as soon as it is imported."""
    sys.meta_path.insert(0, _Finder(timeline))
    for name in [name for name in PATCHES if name in sys.modules]:
        PATCHES[name](sys.modules[name], timeline)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds packages as usual, and patches those in PATCHES once they have been executed."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._busy: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in PATCHES or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy.discard(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module
        timeline = self.timeline

        def exec_and_patch(module: ModuleType) -> None:
            execute(module)
            PATCHES[name](module, timeline)

        spec.loader.exec_module = exec_and_patch  # type: ignore[method-assign]
        return spec


def wrap(owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function or method of a module or class, once."""
    original = owner.__dict__.get(name)
    if original is None or getattr(original, "__hotlap__", False):
        return
    static = isinstance(original, staticmethod)
    replacement = functools.wraps(original.__func__ if static else original)(around(original.__func__ if static else original))
    replacement.__hotlap__ = True  # type: ignore[attr-defined]
    setattr(owner, name, staticmethod(replacement) if static else replacement)


def as_region(timeline: Timeline, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper for functions that are one stage as a whole."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not timeline.region_begins(path):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                timeline.region_ends(path)

        return call

    return around


def as_phase(timeline: Timeline, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper for functions that begin a phase of training."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            timeline.phase_begins(path)
            return original(*args, **kwargs)

        return call

    return around


def _below(cls: type) -> list[type]:
    """All classes derived from this one."""
    found: list[type] = []
    derived: type
    for derived in cls.__subclasses__():
        found += [derived, *_below(derived)]
    return found


# -- torch --


def patch_torch(torch: ModuleType, timeline: Timeline) -> None:
    is_grad_enabled = torch.is_grad_enabled
    Tensor = torch.Tensor

    def around_forward(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if timeline.inside:  # first, and without a call: most modules are parts of another
                return original(module, *args, **kwargs)
            first = args[0] if args else None
            rows = first.shape[0] if isinstance(first, Tensor) and first.dim() else 0
            if not timeline.forward_begins(rows, is_grad_enabled()):
                return original(module, *args, **kwargs)
            try:
                return original(module, *args, **kwargs)
            finally:
                timeline.forward_ends()

        return call

    def around_backward(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not timeline.backward_begins():
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                timeline.backward_ends()

        return call

    wrap(torch.nn.Module, "__call__", around_forward)
    wrap(torch.Tensor, "backward", around_backward)
    wrap(torch.autograd, "backward", around_backward)
    wrap(torch, "save", as_region(timeline, stages.CHECKPOINT))
    open_steps: list[bool] = []
    hooks = importlib.import_module("torch.optim.optimizer")
    hooks.register_optimizer_step_pre_hook(lambda *_: open_steps.append(timeline.optimizer_begins()))
    hooks.register_optimizer_step_post_hook(lambda *_: timeline.optimizer_ends() if open_steps.pop() else None)


def patch_tensorboard(module: ModuleType, timeline: Timeline) -> None:
    for name in ("add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush", "close"):
        wrap(module.SummaryWriter, name, as_region(timeline, stages.LOG))


# -- environments --


def patch_environments(base: type, timeline: Timeline) -> None:
    """Hook `step` and `reset` of a class of environments and of every class derived from it, now or later."""

    def around(path: str, steps: Callable[[Any], int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(env: Any, *args: Any, **kwargs: Any) -> Any:
                if timeline.inside or not timeline.environment_begins(path):
                    return original(env, *args, **kwargs)
                result = None
                try:
                    result = original(env, *args, **kwargs)
                    return result
                finally:
                    timeline.environment_ends(path, steps(env), _ended(result))

            return call

        return decorate

    def hook(cls: type) -> None:
        wrap(cls, "step", around(STEP, lambda env: getattr(env, "num_envs", 1)))
        wrap(cls, "reset", around(RESET, lambda env: 0))

    for cls in (base, *_below(base)):
        hook(cls)
    original = base.__init_subclass__

    def init_subclass(cls: type, **kwargs: Any) -> None:
        original(**kwargs)
        hook(cls)

    base.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment,arg-type]


def _ended(result: Any) -> int:
    """How many episodes a step ended: of one environment or of many, in Gymnasium's form or in SB3's."""
    if not isinstance(result, tuple) or len(result) not in (4, 5):
        return 0
    if len(result) == 5:
        terminated, truncated = result[2], result[3]
        if isinstance(terminated, np.ndarray):
            return int(np.count_nonzero(terminated | truncated))
        return int(bool(terminated) or bool(truncated))
    return int(np.count_nonzero(result[2]))


def patch_gymnasium(module: ModuleType, timeline: Timeline) -> None:
    patch_environments(module.Env, timeline)
    patch_environments(module.vector.VectorEnv, timeline)


# -- frameworks: what the hooks above cannot see --


def patch_sb3(module: ModuleType, timeline: Timeline) -> None:
    """Stable-Baselines3: its own vector environments, buffers, logger, evaluation and checkpoints."""
    names = {
        "stable_baselines3.common.buffers": {
            ("ReplayBuffer", "add"): STORE,
            ("RolloutBuffer", "add"): STORE,
            ("DictReplayBuffer", "add"): STORE,
            ("DictRolloutBuffer", "add"): STORE,
            ("RolloutBuffer", "compute_returns_and_advantage"): stages.ADVANTAGE,
            ("ReplayBuffer", "sample"): stages.SAMPLE,
            ("RolloutBuffer", "_get_samples"): stages.SAMPLE,
        },
        "stable_baselines3.common.logger": {("Logger", "dump"): stages.LOG},
        "stable_baselines3.common.base_class": {("BaseAlgorithm", "save"): stages.CHECKPOINT},
    }
    for path, table in names.items():
        part = importlib.import_module(path)
        for (owner, name), stage in table.items():
            if hasattr(part, owner):
                wrap(getattr(part, owner), name, as_region(timeline, stage))
    for path in ("stable_baselines3.common.evaluation", "stable_baselines3.common.callbacks"):
        wrap(importlib.import_module(path), "evaluate_policy", as_region(timeline, stages.EVALUATE))
    patch_environments(importlib.import_module("stable_baselines3.common.vec_env.base_vec_env").VecEnv, timeline)
    phases = {"collect_rollouts": stages.COLLECT, "train": stages.UPDATE}
    for path, name in (("on_policy_algorithm", "OnPolicyAlgorithm"), ("off_policy_algorithm", "OffPolicyAlgorithm")):
        base = getattr(importlib.import_module(f"stable_baselines3.common.{path}"), name)
        for cls in (base, *_below(base)):
            for method, phase in phases.items():
                wrap(cls, method, as_phase(timeline, phase))
    for path in ("dqn.dqn", "td3.td3", "sac.sac"):
        target = as_region(timeline, f"{stages.UPDATE}/{stages.TARGET}")
        wrap(importlib.import_module(f"stable_baselines3.{path}"), "polyak_update", target)


PATCHES: dict[str, Patch] = {
    "torch": patch_torch,
    "torch.utils.tensorboard.writer": patch_tensorboard,
    "gymnasium": patch_gymnasium,
    "stable_baselines3": patch_sb3,
}
