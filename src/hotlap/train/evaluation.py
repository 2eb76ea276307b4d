"""Greedy evaluation: one episode in each environment."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Actions from observations, what else environments tell, and which rows have begun an episode since they were last asked.
Choose = Callable[[NDArray[Any], dict[str, Any], NDArray[np.bool_] | None], NDArray[Any]]


def play(env: Any, seed: int, choose: Choose) -> dict[str, NDArray[np.float64]]:
    """Play one episode in each row of `env`; per episode: return, length and the game's own metrics.

    Each row counts once, so that long and short episodes weigh the same.
    """
    obs, info = env.reset(seed=seed)
    result: dict[str, NDArray[np.float64]] = {}
    waiting, fresh = np.ones(env.num_envs, bool), None
    while waiting.any():
        obs, _, terminated, truncated, info = env.step(choose(obs, info, fresh))
        fresh = ~info["active"] if "active" in info else None
        if "_final_info" in info:
            fresh = terminated | truncated if fresh is None else fresh | terminated | truncated
            first = info["_final_info"] & waiting
            waiting &= ~first
            for name, values in info["final_info"].items():
                result.setdefault(name, np.zeros(env.num_envs))[first] = values[first]
    return result
