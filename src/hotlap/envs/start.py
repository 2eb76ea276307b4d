"""How `reset(options=...)` fixes the start of episodes, for all environments or for each.

`options` with a game's own keys, such as `{"board": ...}`, fixes the start of all environments; `{"per_env": [options or None,
...]}` fixes each on its own; None: a random start. Tables that come with a start stay the environment's until a reset brings
others; the episodes that begin by themselves begin at random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_ENV = "per_env"
Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class Start:
    """The start of one environment as its kernel reads it. No `numbers`: at random. `tables` replace those it has."""

    numbers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    tables: Mapping[str, NDArray[Any]] = field(default_factory=dict)


RANDOM = Start()


def check_keys(game: str, options: Mapping[str, Any], *known: str) -> None:
    """Refuse options that the game does not know."""
    for key in options:
        if key not in known:
            raise ValueError(f"{game}: unknown reset option {key!r}; it takes {', '.join(known) or 'none'}")


def split(options: Options, num_envs: int) -> Sequence[Options] | None:
    """The options of each environment; None: random starts."""
    if not options:
        return None
    if PER_ENV not in options:
        return [options] * num_envs
    each = options[PER_ENV]
    if len(options) > 1 or not isinstance(each, Sequence) or len(each) != num_envs:
        raise ValueError(
            f"reset option {PER_ENV} stands alone and is a list of {num_envs}: options or None for each environment"
        )
    if not all(env_options is None or isinstance(env_options, Mapping) for env_options in each):
        raise ValueError(f"reset option {PER_ENV} holds options or None for each environment")
    return each


def encode(game: Any, each: Sequence[Options] | None) -> list[Start] | None:
    """What the game makes of the options of each environment; it raises ValueError if they are wrong."""
    if each is None:
        return None
    starts: dict[int, Start] = {}  # environments often share one object
    for options in each:
        if id(options) not in starts:
            starts[id(options)] = game.encode_start(options) if options else RANDOM
    return [starts[id(options)] for options in each]
