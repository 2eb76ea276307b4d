"""What the trainers share: metrics of an iteration, greedy evaluation, and parts of checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass
class Metrics:
    """What one iteration logged."""

    scalars: dict[str, float] = field(default_factory=dict)
    episodes: dict[str, list[float]] = field(default_factory=dict)  # return, length and the game's own, per episode


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


def part_of(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays of a checkpoint whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def tensors_of(arrays: dict[str, NDArray[Any]], device: torch.device, prefix: str) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)).to(device) for name, array in part_of(arrays, prefix).items()}
