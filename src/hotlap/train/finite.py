"""Numbers that are not finite stop training, with a line that says which number it was and where it came from.

A sum is finite only if all its numbers are, so one sum per array and iteration is what these checks cost; only if it is not
(or has overflowed) is every number looked at. Rewards and observations are looked at where the environments wrote them, in host
memory, so that a GPU is not asked (environments on a GPU: once per rollout, with what else the host wants to know); losses once
they are logged.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.core.errors import NotFinite
from hotlap.train import parallel


def all_finite(array: NDArray[Any]) -> bool:
    """Whether every number is finite; whole numbers always are."""
    if array.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        return math.isfinite(array.sum()) or bool(np.isfinite(array).all())


@contextmanager
def checked_steps(env: Any, device: str, bootstrapped: bool = False) -> Iterator[None]:
    """Check the rewards and observations of the steps that are taken inside, as far as the environments' rings hold them.

    If the steps fail, a number that is not finite is the likely cause (of a network's actions that are none, for example).
    `bootstrapped`: the values of where episodes were cut off are added to the rewards in the rings.
    """
    if env.on_device:  # see `check_on_device`
        yield
        return
    try:
        yield
    except Exception as error:
        if problem := _in_rings(env, bootstrapped):
            raise NotFinite(problem) from error
        raise
    problem = _in_rings(env, bootstrapped)
    (anywhere,) = parallel.any_of(bool(problem), device=device)
    if anywhere:
        raise NotFinite(problem or "a reward or an observation is not finite in another process, which says where")


def checked_last(env: Any, last: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """The last observations [rows, ...] of episodes that ended in the present step in these rows of `env`, if finite."""
    if not all_finite(last):
        i, *_ = (int(at) for at in np.argwhere(~np.isfinite(last))[0])
        value = last[i][~np.isfinite(last[i])].flat[0]
        raise NotFinite(f"{_whose(env, int(rows[i]))} ended an episode in the observation {value} in its step {env.steps:,}")
    return last


DEVICE_CHECKS = (
    "steps that were cut off",
    "row of a refused action",
    "last observations",
    "rewards",
    "rewards of seats",
    "observations",
)


def checks_on_device(env: Any, cut: Tensor) -> list[Tensor]:
    """Of a rollout of environments on a GPU, of whose steps [T, N] some were `cut` off: numbers of `DEVICE_CHECKS`; the last
    four say whether any is not finite."""
    last, zero = env.finals["final_obs"][1:], torch.zeros((), device=cut.device)
    spread = cut.view(*cut.shape, *[1] * (last.ndim - cut.ndim))
    ended = torch.where(spread, last, 0).sum() if last.is_floating_point() else zero
    sums = [ended, *(ring.sum() if ring.is_floating_point() else zero for ring in _checked_rings(env).values())]
    return [cut.sum(), env.engine.refused[0], *(~torch.isfinite(part) for part in sums)]


def check_on_device(env: Any, found: list[float]) -> bool:
    """Check what `checks_on_device` found, in all processes. Returns whether any step was cut off."""
    problem = _problem_on_device(env, found)
    (anywhere,) = parallel.any_of(bool(problem), device=str(env.engine.device))
    if anywhere:
        raise NotFinite(problem or "a number or an action is wrong in another process, which says where")
    return bool(found[0])


def _problem_on_device(env: Any, found: list[float]) -> str:
    """The first of them, in words; empty if there is none."""
    _, refused, last, *others = found
    if refused:
        return env.refused_action()  # type: ignore[no-any-return]
    if last:
        cut = env.rings["truncated"][1:] & ~env.rings["terminated"][1:]
        places = cut.nonzero()
        numbers = env.to_host(env.finals["final_obs"][1:][places[:, 0], places[:, 1]])
        for (t, row), ended in zip(places.tolist(), numbers, strict=True):
            if not all_finite(ended):
                value, step = ended[~np.isfinite(ended)].flat[0], env.steps - (env.depth - 1) + t + 1
                return f"{_whose(env, row)} ended an episode in the observation {value} in its step {step:,}"
    return _in_rings(env, False) if any(others) else ""


def check_reward(env: Any, reward: NDArray[np.float32], rows: slice) -> None:
    """Check the rewards of the present step, in these rows of `env`, before they are scaled."""
    if not all_finite(reward):
        i = int(np.flatnonzero(~np.isfinite(reward))[0])
        raise NotFinite(f"{_whose(env, rows.start + i)} returned the reward {reward[i]} in its step {env.steps:,}")


def check_losses(scalars: dict[str, float], state: Any) -> None:
    """Check what an iteration logged of its learning, after its rewards and observations were found to be finite.

    The norm of the last update's gradient is among it, which is not finite if parameters were not after any update before it.
    """
    for name, value in scalars.items():
        if not math.isfinite(value):
            what = name.removeprefix("train/").replace("_", " ")
            raise NotFinite(
                f"the {what} is {value} in iteration {state.iterations:,} (update {state.updates:,}, environment step "
                f"{state.env_steps:,}), though rewards and observations are finite: lower the learning rate, or scale rewards"
            )


_CHECKED = {
    "net.": "of the network is not finite: lower the learning rate, or scale rewards",
    "obs_moments.": "of the running moments of observations is not finite: scale observations",
    "reward_scale.": "of the running scale of rewards is not finite: scale rewards",
}


def check_state(arrays: dict[str, NDArray[Any]]) -> None:
    """Check a trainer's state before it replaces a good checkpoint."""
    for name, array in arrays.items():
        for part, problem in _CHECKED.items():
            if name.startswith(part) and not all_finite(array):
                raise NotFinite(f"{name.removeprefix(part)} {problem}")


def _in_rings(env: Any, bootstrapped: bool) -> str:
    """The first reward or observation in the environments' rings that is not finite, in words; empty if there is none."""
    rings = {name: env.to_host(ring) if env.on_device else ring for name, ring in _checked_rings(env).items()}
    places = [
        (env.steps - (env.slot - int(slot)) % env.depth, int(row), name, ring[slot, row])
        for name, ring in rings.items()
        if not all_finite(ring)
        for slot, row in np.unique(np.argwhere(~np.isfinite(ring))[:, :2], axis=0)
    ]
    if not places:
        return ""
    step, row, name, numbers = min(places, key=lambda place: place[:2])
    value = numbers[~np.isfinite(numbers)].flat[0]
    at = (env.slot + step - env.steps) % env.depth, row
    cut = bootstrapped and name.startswith("reward") and env.rings["truncated"][at] and not env.rings["terminated"][at]
    what = f"the {name.removesuffix('s')} {value}{', with the value of where its episode was cut off,' if cut else ''}"
    return f"{_whose(env, row)} returned {what} in its step {step:,}"


def _checked_rings(env: Any) -> dict[str, Any]:
    return {"reward": env.rings["reward"], "rewards": env.rings["rewards"], "observation": env.rings["obs"]}


def _whose(env: Any, row: int) -> str:
    """A row's environment, and which of its agents it is, counted over all processes."""
    agents = env.env_spec.agents
    number = parallel.rank() * (env.num_envs // agents) + row // agents
    return f"environment {number}" + (f" (agent {row % agents})" if agents > 1 else "")
