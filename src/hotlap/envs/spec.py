"""What an environment declares about itself, once, for its Python reference, its C kernel and the trainers.

The engine allocates and fills exactly the arrays that follow from it, a kernel is compiled with its constants, and Gymnasium's
spaces are made from it. Environments of others are described by their spaces (`EnvSpec.of`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from numpy.typing import NDArray

Bound = float | tuple[float, ...]  # one for all numbers, or one each


@dataclass(frozen=True)
class Table:
    """An array that a kernel reads and never writes, given at run time: a map, a net, a deck of cards.

    One for all environments, or one for each.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class EnvSpec:
    """Shapes and types of one row of a vector environment; how many players share an environment, and how."""

    obs_shape: tuple[int, ...]
    obs_dtype: str = "<f4"
    obs_low: Bound = -inf
    obs_high: Bound = inf
    obs_size: int = 0  # sparse: the length of the dense vector of zeros and ones; a row is its number of ones, where they are,
    # and `obs_size` in the places that are left. 0: dense
    action_sizes: tuple[int, ...] = ()  # choices of each discrete action; none: continuous
    action_shape: tuple[int, ...] = ()
    action_low: Bound = -inf
    action_high: Bound = inf
    masked: bool = False  # some actions are illegal at times
    seats: int = 1  # players who take turns in one row
    agents: int = 1  # rows of one environment, which act at the same time
    metrics: tuple[str, ...] = ()  # game-specific numbers per episode
    tables: tuple[Table, ...] = ()

    @classmethod
    def dense(cls, shape: tuple[int, ...], low: Bound = -inf, high: Bound = inf, dtype: str = "<f4", **more: Any) -> "EnvSpec":
        """Observations are arrays of numbers; `dtype="|u1"`: bytes."""
        return cls(obs_shape=shape, obs_dtype=dtype, obs_low=low, obs_high=high, **_discrete(more))

    @classmethod
    def sparse(cls, size: int, most: int, **more: Any) -> "EnvSpec":
        """Observations are zeros and ones, `size` of them, of which at most `most` are ones."""
        dtype = "<i2" if size < 2**15 else "<i4"
        return cls(obs_shape=(1 + most,), obs_dtype=dtype, obs_low=0, obs_high=size, obs_size=size, **_discrete(more))

    @classmethod
    def of(cls, env: Any) -> "EnvSpec":
        """An environment's declaration, or what its spaces say and, where it has them, its `metric_names`, `seats` and
        `agent_rows`."""
        base = getattr(env, "unwrapped", env)
        if isinstance(getattr(base, "env_spec", None), EnvSpec):
            declared: EnvSpec = base.env_spec
            return declared
        space, actions = env.observation_space, env.action_space
        sizes: tuple[int, ...] = ()
        if isinstance(actions, Discrete):
            sizes = (int(actions.n),)
        elif isinstance(actions, MultiDiscrete):
            sizes = tuple(int(n) for n in actions.nvec.flat)
        continuous = isinstance(actions, Box)
        return cls(
            obs_shape=tuple(space.shape),
            obs_dtype=np.dtype(space.dtype).str,
            obs_low=_bound(space.low),
            obs_high=_bound(space.high),
            action_sizes=sizes,
            action_shape=tuple(actions.shape or ()),
            action_low=_bound(actions.low) if continuous else -inf,
            action_high=_bound(actions.high) if continuous else inf,
            metrics=tuple(getattr(base, "metric_names", ())),
            seats=getattr(base, "seats", 1),
            agents=getattr(base, "agent_rows", 1),
        )

    @property
    def choices(self) -> int:
        """Width of an action mask."""
        return sum(self.action_sizes)

    @property
    def action_dtype(self) -> str:
        return "<i8" if self.action_sizes else "<f4"

    @property
    def observation_space(self) -> Space[Any]:
        return _box(self.obs_low, self.obs_high, self.obs_shape, self.obs_dtype)

    @property
    def action_space(self) -> Space[Any]:
        if not self.action_sizes:
            return _box(self.action_low, self.action_high, self.action_shape, self.action_dtype)
        return MultiDiscrete(list(self.action_sizes)) if self.action_shape else Discrete(self.action_sizes[0])

    def sparse_row(self, ones: Sequence[int] = ()) -> NDArray[Any]:
        """A sparse observation, from where its ones are."""
        row = np.full(self.obs_shape, self.obs_size, self.obs_dtype)
        row[0], row[1 : 1 + len(ones)] = len(ones), ones
        return row

    @property
    def empty_obs(self) -> NDArray[Any]:
        """What an agent sees that waits for the others to end their episode: nothing."""
        return self.sparse_row() if self.obs_size else np.zeros(self.obs_shape, self.obs_dtype)

    @property
    def obs_scale(self) -> float:
        """The factor that scales the bytes of images to 0..1."""
        return 1 / 255 if self.obs_dtype == "|u1" and self.obs_high == 255 else 1.0


def _discrete(more: dict[str, Any]) -> dict[str, Any]:
    """`actions`: the choices of one discrete action, or of several at once."""
    actions = more.pop("actions")
    if isinstance(actions, int):
        return {**more, "action_sizes": (actions,)}
    return {**more, "action_sizes": tuple(actions), "action_shape": (len(actions),)}


def _bound(values: Any) -> Bound:
    numbers = np.asarray(values, np.float64).ravel()
    return float(numbers[0]) if (numbers == numbers[0]).all() else tuple(float(number) for number in numbers)


def _box(low: Bound, high: Bound, shape: tuple[int, ...], dtype: str) -> Box:
    kind = np.dtype(dtype)

    def array(bound: Bound) -> Any:
        return np.array(bound if isinstance(bound, tuple) else [bound] * prod(shape), kind).reshape(shape)

    return Box(array(low), array(high), shape, kind.type)
