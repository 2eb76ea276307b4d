"""What goes on beside training, left out or made rarer: sleeping, drawing, logging, evaluating, saving."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hotlap.interventions.changing import Change, for_each_class, nothing, when_imported


@contextmanager
def sleep_off() -> Iterator[None]:
    """`time.sleep` returns at once, on the thread that trains; other threads sleep as before."""
    import threading

    original, main = time.sleep, threading.main_thread()

    def patch(pygame: Any, change: Change) -> None:
        change.set(pygame.time, "wait", nothing)
        change.set(pygame.time, "delay", nothing)

    with when_imported({"pygame": patch}) as change:

        def sleep(seconds: float) -> None:
            if threading.current_thread() is main:
                change.took()
            else:
                original(seconds)

        time.sleep = sleep  # type: ignore[assignment]
        try:
            yield
        finally:
            time.sleep = original


def render_off() -> AbstractContextManager[Change]:
    """Environments draw nothing: `render` gives what it gave the first time."""

    def patch(module: Any, change: Change) -> None:
        def alter(cls: Any) -> None:
            if "render" in cls.__dict__:
                cls.render = change.noted(once(cls.__dict__["render"]))

        for_each_class(module.Env, change, alter)

    return when_imported({"gymnasium": patch})


def once(function: Any) -> Any:
    """The function's first result, always."""
    kept: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kept:
            kept.append(function(*args, **kwargs))
        return kept[0]

    return call


def logs_off() -> AbstractContextManager[Change]:
    """TensorBoard, Weights & Biases, logging and SB3's logger write nothing."""

    def tensorboard(module: Any, change: Change) -> None:
        for name in ("add_scalar", "add_scalars", "add_histogram", "add_text", "add_image", "add_video", "flush"):
            change.set(module.SummaryWriter, name, nothing)

    def wandb(module: Any, change: Change) -> None:
        change.set(module.Run, "log", nothing)

    def logging(module: Any, change: Change) -> None:
        change.set(module.Logger, "callHandlers", nothing)

    def sb3(module: Any, change: Change) -> None:
        change.set(module.Logger, "dump", nothing)

    return when_imported(
        {
            "torch.utils.tensorboard.writer": tensorboard,
            "tensorboardX.writer": tensorboard,
            "wandb.sdk.wandb_run": wandb,
            "logging": logging,
            "stable_baselines3.common.logger": sb3,
        }
    )


def evaluation_rarer(times: int = 10) -> AbstractContextManager[Change]:
    """SB3 evaluates once where it would do so several times; between, the last result stands."""

    def patch(module: Any, change: Change) -> None:
        original = module.EvalCallback._on_step
        calls: dict[int, int] = {}

        def on_step(self: Any) -> bool:
            if self.eval_freq > 0 and self.n_calls % self.eval_freq == 0:
                calls[id(self)] = calls.get(id(self), -1) + 1
                if calls[id(self)] % times:
                    return True
            return bool(original(self))

        change.set(module.EvalCallback, "_on_step", on_step)

    return when_imported({"stable_baselines3.common.callbacks": patch})


def checkpoints_off() -> AbstractContextManager[Change]:
    """`torch.save`, and what SB3 saves, is not written."""

    def torch(module: Any, change: Change) -> None:
        change.set(module, "save", nothing)

    def sb3(module: Any, change: Change) -> None:
        change.set(module.BaseAlgorithm, "save", nothing)

    def off_policy(module: Any, change: Change) -> None:
        change.set(module.OffPolicyAlgorithm, "save_replay_buffer", nothing)

    return when_imported(
        {
            "torch": torch,
            "stable_baselines3.common.base_class": sb3,
            "stable_baselines3.common.off_policy_algorithm": off_policy,
        }
    )


def flush_off() -> AbstractContextManager[Change]:
    """`gc.collect` and `empty_cache` do nothing."""

    def collect(module: Any, change: Change) -> None:
        change.set(module, "collect", lambda *_, **__: 0)

    def empty_cache(torch: Any, change: Change) -> None:
        change.set(torch.cuda, "empty_cache", nothing)

    return when_imported({"gc": collect, "torch": empty_cache})
