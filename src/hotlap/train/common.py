"""What the trainers share: their configs' common part, what an iteration saw, greedy play, and parts of checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Common:
    num_envs: int = 8
    """Environments stepped together; of several processes (torchrun), of all of them."""
    turbo: bool = False
    """Run the compiled kernel of the environment; off: Python, with the same results."""
    env_threads: int = 1
    """Threads that step the environments' kernel."""
    workers: int = -1
    """Processes that step environments in Python; 0: this one, -1: as many as measure fastest. The results are the same."""
    env_timeout: float = 60.0
    """Seconds without an answer after which a worker is called hung."""
    total_steps: int = 200_000
    """Environment steps to train for."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    gamma: float = 0.99
    """Discount per step."""
    grad_clip: float = 0.5
    """Largest norm of the gradient."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers."""
    device: str = "cpu"
    """Where to train: cpu, cuda or cuda:0."""
    torch_threads: int = 1
    """Threads that torch uses on the CPU; small networks are fastest with one."""
    seed: int = 0
    """Same seed, same machine: same numbers."""


ONES = ("num_envs", "env_threads", "total_steps", "torch_threads")
ZEROS = ("learning_rate", "grad_clip", "seed")


def check(
    config: Any,
    ones: tuple[str, ...] = (),
    zeros: tuple[str, ...] = (),
    fractions: tuple[str, ...] = (),
    words: dict[str, tuple[str, ...]] | None = None,
) -> None:
    """Refuse values that cannot work: below 1, below 0, outside 0 to 1, or none of some words."""
    for name, least in (dict.fromkeys((*ONES, *ones), 1) | dict.fromkeys((*ZEROS, *zeros), 0) | {"workers": -1}).items():
        if not least <= getattr(config, name) < float("inf"):  # false for nan too
            raise ValueError(f"{_flag(name)} must be at least {least}, not {getattr(config, name)}")
    for name in ("gamma", *fractions):
        if not 0 <= getattr(config, name) <= 1:
            raise ValueError(f"{_flag(name)} must be from 0 to 1, not {getattr(config, name)}")
    for name, known in (words or {}).items():
        if getattr(config, name) not in known:
            raise ValueError(f"{_flag(name)} must be one of {', '.join(known)}, not {getattr(config, name)!r}")
    if not config.hidden or min(config.hidden) < 1:
        raise ValueError("hidden must be one or more layers of at least 1 unit")
    if not config.env_timeout > 0:
        raise ValueError(f"env-timeout must be above 0, not {config.env_timeout}")


def _flag(name: str) -> str:
    return name.replace("_", "-")


@dataclass
class Metrics:
    """What one iteration saw."""

    scalars: dict[str, float] = field(default_factory=dict)
    episodes: dict[str, list[float]] = field(default_factory=dict)  # return, length and the game's own, per episode


# Actions from observations, what else environments tell, and which rows have begun an episode since they were last asked.
Choose = Callable[[NDArray[Any], dict[str, Any], NDArray[np.bool_] | None], NDArray[Any]]


def play(env: Any, seed: int, choose: Choose) -> dict[str, NDArray[np.float64]]:
    """Play one episode in each row of `env`; per episode: return, length and the game's own metrics.

    Each row counts once, so long episodes weigh no less than short ones.
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
