"""Greedy evaluation: one episode in each environment, kept so that it can be played again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.record.episodes import POLICY, Episode

# Actions from observations, what else environments tell, and which rows have begun an episode since they were last asked.
Choose = Callable[[NDArray[Any], dict[str, Any], NDArray[np.bool_] | None], NDArray[Any]]


@dataclass(frozen=True)
class Played:
    """Episodes of an evaluation; `played["return"]` is a column of numbers, one per episode: of several agents, their mean."""

    columns: dict[str, NDArray[np.float64]]  # return, length and the game's own metrics
    episodes: tuple[Episode, ...]
    against: dict[str, dict[str, NDArray[np.float64]]]  # games of several seats: the columns of the games against each bot
    rating: float | None = None
    cases: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # returns by case, where there are several

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self.columns[name]


class ActionLog:
    """The actions of the first episode of each environment, step by step."""

    def __init__(self) -> None:
        self._steps: list[NDArray[Any]] = []

    def add(self, actions: NDArray[Any]) -> None:
        self._steps.append(np.array(actions))

    def of(self, rows: slice | int, length: int) -> tuple[Any, ...]:
        """A row's actions, or those of all agents of an environment, as plain numbers."""
        return tuple(step[rows].tolist() for step in self._steps[:length])


def play(env: Any, seed: int, choose: Choose, options: Mapping[str, Any] | None = None) -> Played:
    """Play one episode in each environment; per episode: return, length and the game's own metrics.

    Each environment counts once, so that long and short episodes weigh the same.
    """
    options = dict(options) if options else None
    obs, info = env.reset(seed=seed, options=options)
    result: dict[str, NDArray[np.float64]] = {}
    waiting, fresh = np.ones(env.num_envs, bool), None
    taken = ActionLog()
    while waiting.any():
        actions = choose(obs, info, fresh)
        taken.add(actions)
        obs, _, terminated, truncated, info = env.step(actions)
        fresh = ~info["active"] if "active" in info else None
        if "_final_info" in info:
            fresh = terminated | truncated if fresh is None else fresh | terminated | truncated
            first = info["_final_info"] & waiting
            waiting &= ~first
            for name, values in info["final_info"].items():
                result.setdefault(name, np.zeros(env.num_envs))[first] = values[first]
    agents = env.env_spec.agents  # those of one environment are no independent samples
    columns = {name: values.reshape(-1, agents).mean(1) for name, values in result.items()}
    return Played(columns, _episodes(result, taken, seed, agents, options), {})


def _episodes(
    result: dict[str, NDArray[np.float64]], taken: ActionLog, seed: int, agents: int, options: dict[str, Any] | None
) -> tuple[Episode, ...]:
    metrics = [name for name in result if name not in ("return", "length")]
    episodes = []
    for number in range(len(result["return"]) // agents):
        rows = slice(number * agents, (number + 1) * agents)
        length = int(result["length"][rows].max())  # agents that left early waited for the others
        episodes.append(
            Episode(
                number=number,
                seed=seed + rows.start,  # row i is seeded with seed + i
                actions=taken.of(rows if agents > 1 else number, length),
                returns=tuple(result["return"][rows].tolist()),
                players=(POLICY,) * agents,
                metrics={name: tuple(result[name][rows].tolist()) for name in metrics},
                reset_options=options,
            )
        )
    return tuple(episodes)


def joined(parts: Sequence[Played], rating: float | None = None) -> Played:
    """Evaluations one after another, their episodes numbered through."""
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0].columns}
    episodes = [episode for part in parts for episode in part.episodes]
    numbered = tuple(replace(episode, number=number) for number, episode in enumerate(episodes))
    return Played(columns, numbered, {name: games for part in parts for name, games in part.against.items()}, rating)


def by_case(play_case: Callable[[int, Mapping[str, Any]], Played], cases: Mapping[str, Mapping[str, Any]], seed: int) -> Played:
    """One evaluation of each case, given by the options of its resets, on seeds of its own."""
    parts: dict[str, Played] = {}
    for name, options in cases.items():
        parts[name] = play_case(seed + sum(len(e.returns) for part in parts.values() for e in part.episodes), options)
    return replace(joined(list(parts.values())), cases={name: part["return"] for name, part in parts.items()})
