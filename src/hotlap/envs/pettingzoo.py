"""PettingZoo games as hotlap environments: `pettingzoo/connect_four_v3` by name, or any object with a PettingZoo interface.

A game whose players take turns (AEC) becomes one row whose `seat` changes; one whose players act at the same time (Parallel)
has a row for each. The players of a game must have equal spaces.
"""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

PREFIX = "pettingzoo/"
FAMILIES = ("classic", "butterfly", "sisl", "atari")


def maker(name: str) -> Callable[[], Any]:
    """A function that makes the game of this name, such as `pettingzoo/connect_four_v3`."""
    wanted = name.removeprefix(PREFIX)
    if find_spec("pettingzoo") is None:
        raise ValueError(f"{name} needs PettingZoo: pip install pettingzoo")
    for family in FAMILIES:
        module = f"pettingzoo.{family}.{wanted}"
        with suppress(ImportError):  # a family that is not installed
            if wanted.isidentifier() and find_spec(module) is not None:
                return lambda: _make(name, module)
    raise ValueError(f"PettingZoo has no game {wanted!r}")


def _make(name: str, module: str) -> Any:
    try:
        games = import_module(module)
    except ImportError as error:
        raise ValueError(f"{name} cannot be made: {error}") from None
    return SimultaneousEnv(games.parallel_env()) if hasattr(games, "parallel_env") else TurnBasedEnv(games.env())


class TurnBasedEnv(gymnasium.Env[Any, Any]):
    """A turn-based game: each step is the move of whoever's turn it is, `info["seat"]`; `info["rewards"]` are everyone's."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.seats = len(game.possible_agents)
        self.observation_space, self.action_space = _spaces(game)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.game.reset(seed=None if seed is None else seed % 2**31, options=options)
        obs, mask = self._observe()
        return obs, self._info(mask)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        game = self.game
        seat = self._seat()
        game.step(action)
        rewards = np.array([game.rewards.get(agent, 0.0) for agent in game.possible_agents], np.float32)
        terminated = any(game.terminations.values())
        (obs, mask), next_seat = self._observe(), self._seat()
        while game.agents and (game.terminations[game.agent_selection] or game.truncations[game.agent_selection]):
            game.step(None)  # an AEC game removes a finished player on its next step
            if game.agents:
                (obs, mask), next_seat = self._observe(), self._seat()
        over = not game.agents
        info = self._info(mask) | {"seat": next_seat, "rewards": rewards}
        return obs, float(rewards[seat]), over and terminated, over and not terminated, info

    def _seat(self) -> int:
        return int(self.game.possible_agents.index(self.game.agent_selection)) if self.game.agents else 0

    def _observe(self) -> tuple[Any, Any]:
        return _split(self.game.observe(self.game.agent_selection))

    def _info(self, mask: Any) -> dict[str, Any]:
        return {"seat": self._seat()} | ({} if mask is None else {"action_mask": mask})

    def close(self) -> None:
        self.game.close()


class SimultaneousEnv:
    """Players who act at the same time, for `serial.AgentsEngine`."""

    def __init__(self, game: Any) -> None:
        self.game = game
        self.agent_rows = len(game.possible_agents)
        self.observation_space, self.action_space = _spaces(game)
        self._number = {agent: i for i, agent in enumerate(game.possible_agents)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> list[tuple[int, Any, Any]]:
        """(agent, observation, mask) of each agent."""
        observations, _ = self.game.reset(seed=None if seed is None else seed % 2**31, options=options)
        return [(self._number[agent], *_split(obs)) for agent, obs in observations.items()]

    def step(self, actions: Any) -> tuple[list[tuple[int, Any, float, bool, bool, Any]], bool]:
        """(agent, observation, reward, terminated, truncated, mask) of each that acted, and whether the episode is over."""
        acted = list(self.game.agents)
        observations, reward, terminated, truncated, _ = self.game.step(
            {agent: actions[self._number[agent]] for agent in acted}
        )
        results = []
        for agent in acted:
            obs, mask = _split(observations[agent])
            results.append((self._number[agent], obs, reward[agent], terminated[agent], truncated[agent], mask))
        return results, not self.game.agents

    def close(self) -> None:
        self.game.close()


def _spaces(game: Any) -> tuple[Any, Any]:
    seen = [game.observation_space(agent) for agent in game.possible_agents]
    actions = [game.action_space(agent) for agent in game.possible_agents]
    seen = [
        space["observation"] if isinstance(space, spaces.Dict) and "observation" in space.spaces else space for space in seen
    ]
    if any(space != seen[0] for space in seen) or any(space != actions[0] for space in actions):
        raise ValueError("the players of a game must have equal observation and action spaces")
    if not isinstance(seen[0], spaces.Box):
        raise ValueError(f"a player must see an array of numbers, not {seen[0]}")
    return seen[0], actions[0]


def _split(obs: Any) -> tuple[Any, Any]:
    """Observation and mask."""
    return (obs["observation"], obs["action_mask"]) if isinstance(obs, dict) else (obs, None)
