"""Parts of frameworks replaced by hotlap's own kernels."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.core import native
from hotlap.interventions.changing import Change


def gae_kernel(change: Change) -> None:
    """SB3's rollout buffer computes its advantages with hotlap's C loop. Without a C compiler it stays as it is."""

    def compute(self: Any, last_values: Any, dones: Any) -> None:
        import numpy as np  # the script's own

        following = last_values.detach().cpu().numpy().reshape(1, -1)
        value = np.concatenate((self.values, following)).astype(np.float32)
        done = np.concatenate((self.episode_starts[1:], np.reshape(dones, (1, -1)))).astype(np.float32)
        reward = np.ascontiguousarray(self.rewards, dtype=np.float32)
        self.advantages = np.empty_like(reward)
        arrays = (reward, value, done, self.advantages)
        _library().hotlap_gae(*(array.ctypes.data for array in arrays), *reward.shape, self.gamma, self.gae_lambda)
        self.returns = self.advantages + self.values

    def on_import(module: ModuleType) -> None:
        if _library() is not None:
            change.replace(module.RolloutBuffer, "compute_returns_and_advantage", compute)

    change.when_imported("stable_baselines3.common.buffers", on_import)


@cache
def _library() -> Any:
    """gae.c, loaded without the trainers: they need another torch than the script's may be."""
    library = native.optional("gae", Path(__file__).parents[1] / "train" / "gae.c", native.EXACT)
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        library.hotlap_gae.argtypes, library.hotlap_gae.restype = [*[pointer] * 4, *[size] * 2, *[number] * 2], None
    return library
