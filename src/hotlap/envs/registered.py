"""One environment that is registered with Gymnasium, or made by a function, as a vector can step it."""

import copy
from collections.abc import Callable
from typing import Any

from gymnasium.spaces import Box

LONGEST = 10_000  # steps of an episode, where the environment itself sets no limit


def maker(name: str, options: dict[str, Any]) -> Callable[[], Any]:
    """Makes a registered environment, without the wrappers that only check how they are called: ours is the right way."""
    import gymnasium

    spec: Any = copy.deepcopy(gymnasium.spec(name.rpartition(":")[2]))  # without the module that registered it
    spec.order_enforce = False

    def make() -> Any:
        made = gymnasium.make(spec, disable_env_checker=True, **options)
        if spec.max_episode_steps is None:  # or a greedy policy may play one episode forever
            made = gymnasium.wrappers.TimeLimit(made, LONGEST)
        return made

    return make


def with_numbers(make: Callable[[], Any], name: str) -> Any:
    """The environment, with observations that are arrays of numbers; ValueError if it cannot be made."""
    import gymnasium

    try:
        made = make()
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"{name} cannot be made: {error}") from None
    fine = isinstance(made.observation_space, Box) or not isinstance(made, gymnasium.Env)
    return made if fine else gymnasium.wrappers.FlattenObservation(made)
