"""Work beside training, left out or done less often: sleeping, drawing, logging, evaluating, saving."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import Any

from hotlap.interventions.changing import Change, nothing


def sleep_off(change: Change) -> None:
    """`time.sleep` returns at once, on the thread that trains; other threads sleep as before."""
    original, main = time.sleep, threading.main_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is main:
            change.applied()
        else:
            original(seconds)

    def pygame(module: Any) -> None:
        change.replace(module.time, "wait", nothing)
        change.replace(module.time, "delay", nothing)

    change.set(time, "sleep", sleep)
    change.when_imported("pygame", pygame)


def render_off(change: Change) -> None:
    """Environments draw nothing: `render` gives what it gave the first time."""

    def alter(cls: Any) -> None:
        if "render" in cls.__dict__:
            change.replace(cls, "render", once(cls.__dict__["render"]))

    change.when_imported("gymnasium", lambda module: change.for_each_subclass(module.Env, alter))


def once(function: Any) -> Any:
    """The function's first result, always."""
    kept: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kept:
            kept.append(function(*args, **kwargs))
        return kept[0]

    return call


def logs_off(change: Change) -> None:
    """TensorBoard, Weights & Biases, logging and SB3's logger write nothing."""

    def tensorboard(module: Any) -> None:
        for name in ("add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush"):
            change.replace(module.SummaryWriter, name, nothing)

    change.replace(logging.Logger, "callHandlers", nothing)
    change.when_imported("torch.utils.tensorboard.writer", tensorboard)
    change.when_imported("tensorboardX.writer", tensorboard)
    change.when_imported("wandb.sdk.wandb_run", lambda module: change.replace(module.Run, "log", nothing))
    change.when_imported("stable_baselines3.common.logger", lambda module: change.replace(module.Logger, "dump", nothing))


def evaluation_rarer(change: Change, times: int = 10) -> None:
    """SB3 evaluates once where it would do so several times; between, the last result stands."""

    def patch(module: Any) -> None:
        original = module.EvalCallback._on_step
        calls: dict[int, int] = {}

        def on_step(self: Any) -> bool:
            if self.eval_freq > 0 and self.n_calls % self.eval_freq == 0:
                calls[id(self)] = calls.get(id(self), -1) + 1
                if calls[id(self)] % times:
                    change.applied()
                    return True
            return bool(original(self))

        change.set(module.EvalCallback, "_on_step", on_step)

    change.when_imported("stable_baselines3.common.callbacks", patch)


def checkpoints_off(change: Change) -> None:
    """`torch.save`, and what SB3 saves, is not written."""

    def replay_buffer(module: Any) -> None:
        change.replace(module.OffPolicyAlgorithm, "save_replay_buffer", nothing)

    change.when_imported("torch", lambda torch: change.replace(torch, "save", nothing))
    change.when_imported(
        "stable_baselines3.common.base_class", lambda module: change.replace(module.BaseAlgorithm, "save", nothing)
    )
    change.when_imported("stable_baselines3.common.off_policy_algorithm", replay_buffer)


def flush_off(change: Change) -> None:
    """`gc.collect` and `empty_cache` do nothing."""
    change.replace(gc, "collect", lambda *_, **__: 0)
    change.when_imported("torch", lambda torch: change.replace(torch.cuda, "empty_cache", nothing))
