"""A kept episode, played again on the Python environment: every state, action and reward of it.

A game shows its states by `draw()`, and says by `seat_styles` in which style it draws each seat; of others the text that they
render is shown, or else the numbers of the observation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotlap.core.errors import HotlapError, RecordError
from hotlap.envs.picture import Picture
from hotlap.record.episodes import EnvSource, Episode

NUMBERS_PER_LINE = 6
MOST_NUMBERS = 60  # of an observation that are shown
DEFAULT_FPS = 5.0


@dataclass(frozen=True)
class Frame:
    """A state, and how it came about. Actions, rewards and returns are one for each seat or agent, or of the one player."""

    step: int  # 0: the start
    picture: Picture
    actions: tuple[str, ...]  # in words; "" of those who did not act
    rewards: tuple[float, ...]
    returns: tuple[float, ...]  # so far


@dataclass(frozen=True)
class ReplayedEpisode:
    """An episode with all its states."""

    source: EnvSource
    episode: Episode
    frames: tuple[Frame, ...]
    fps: float  # at which it is good to look at
    seat_styles: tuple[str, ...] = ()  # in which each seat is drawn; none: in no colours of their own

    @property
    def reproduced(self) -> bool:
        """Whether it went as it did the first time: as long, with the same returns to the bit."""
        return len(self.frames) == self.episode.length + 1 and self.frames[-1].returns == self.episode.returns


def play_again(source: EnvSource, episode: Episode) -> ReplayedEpisode:
    """Play a kept episode again."""
    env = make_single(source)
    try:
        frames = tuple((_agents if _has_agents(env) else _one_row)(env, episode))
    except HotlapError:
        raise
    except Exception as error:  # whatever an environment raises when it is given a damaged record
        message = str(error).partition("\n")[0]
        raise RecordError(f"episode {episode.number} cannot be played again: {type(error).__name__}: {message}") from error
    finally:
        env.close()
    fps = float(getattr(env, "metadata", {}).get("render_fps") or DEFAULT_FPS)
    styles = tuple(getattr(getattr(env, "unwrapped", env), "seat_styles", ()))
    return ReplayedEpisode(source, episode, frames, fps, styles if len(styles) == len(episode.returns) else ())


def make_single(source: EnvSource) -> Any:
    """One environment in Python: the reference of a game, or one of Gymnasium's or PettingZoo's, in text if it can do that.

    A record may come from anywhere: what it names is made only if it is a game of hotlap's, of an installed plugin, or a
    registered environment.
    """
    from hotlap.envs import GAMES, load_game
    from hotlap.envs.vector import make_gym
    from hotlap.systems import every_system

    if source.game and source.game not in GAMES and all(source.game != system.game for system in every_system()[0]):
        raise RecordError(f"{source.game!r} is no game of hotlap's or of an installed plugin")
    try:
        if source.game:
            return load_game(source.game)(**source.options)
        vector: Any = make_gym(source.gym, 1, **source.options)
        if "ansi" in getattr(vector.engine.envs[0], "metadata", {}).get("render_modes", ()):
            vector.close()
            vector = make_gym(source.gym, 1, render_mode="ansi", **source.options)
        return vector.engine.envs[0]
    except HotlapError:
        raise
    except Exception as error:  # options of another version, an environment that is not registered here
        raise RecordError(f"{source.name} cannot be made: {str(error).partition(chr(10))[0]}") from error


def _has_agents(env: Any) -> bool:
    """Whether several agents act at the same time (see `pettingzoo.SimultaneousEnv`)."""
    spec = getattr(env, "env_spec", None)
    return (spec.agents if spec is not None else getattr(env, "agent_rows", 1)) > 1


# -- how episodes go --


def _one_row(env: Any, episode: Episode) -> Iterator[Frame]:
    """One player, or seats that take turns: `info` says whose turn it is and what each got."""
    players = len(episode.returns)
    obs, info = env.reset(seed=episode.seed, options=episode.reset_options)
    returns = [0.0] * players
    yield Frame(0, _picture(env, obs), ("",) * players, (0.0,) * players, tuple(returns))
    words = _words(env)
    for step, action in enumerate(episode.actions, 1):
        seat = int(info["seat"]) if players > 1 else 0
        description = words(action)
        obs, reward, terminated, truncated, info = env.step(_for_env(action, env.action_space))
        rewards = [float(part) for part in info["rewards"]] if players > 1 else [float(reward)]
        returns = [total + part for total, part in zip(returns, rewards, strict=True)]
        acted = tuple(description if number == seat else "" for number in range(players))
        yield Frame(step, _picture(env, obs), acted, tuple(rewards), tuple(returns))
        if terminated or truncated:
            return


def _agents(env: Any, episode: Episode) -> Iterator[Frame]:
    """Agents that act at the same time; those that left early wait."""
    players = len(episode.returns)
    seen = {agent: obs for agent, obs, _ in env.reset(seed=episode.seed, options=episode.reset_options)}
    returns = [0.0] * players
    yield Frame(0, _picture(env, seen), ("",) * players, (0.0,) * players, tuple(returns))
    words = _words(env)
    for step, actions in enumerate(episode.actions, 1):
        descriptions = [words(action) for action in actions]
        left, over = env.step([_for_env(action, env.action_space) for action in actions])
        rewards, acted = [0.0] * players, [""] * players
        for agent, obs, reward, *_ in left:
            seen[agent], rewards[agent], acted[agent] = obs, float(reward), descriptions[agent]
            returns[agent] += rewards[agent]
        yield Frame(step, _picture(env, seen), tuple(acted), tuple(rewards), tuple(returns))
        if over:
            return


def _for_env(action: Any, space: Any) -> Any:
    """A recorded action as the environment was given it."""
    if isinstance(action, int) and not space.shape:
        return np.int64(action)
    numbers = np.asarray(action)
    if not np.can_cast(numbers.dtype, space.dtype, "same_kind"):
        raise ValueError(f"action {action} is outside {space}")
    return numbers.astype(space.dtype).reshape(space.shape)


# -- how they are shown --


def _words(env: Any) -> Callable[[Any], str]:
    """How an action is described: by the game, or as its numbers."""
    describe = getattr(getattr(env, "unwrapped", env), "describe_action", None)
    if describe is not None:
        return lambda action: str(describe(action))
    return lambda action: " ".join(f"{number:.3g}" for number in np.ravel(action).tolist())


def _picture(env: Any, obs: Any) -> Picture:
    game = getattr(env, "unwrapped", env)
    if hasattr(game, "draw"):
        drawn: Picture = game.draw()
        return drawn
    if getattr(env, "render_mode", None) == "ansi":
        return from_ansi(str(env.render()))
    if isinstance(obs, dict):  # of several agents
        return [line for agent, part in obs.items() for line in [[(f"agent {agent + 1}", "bold")], *_numbers(part)]]
    return _numbers(obs)


def from_ansi(text: str) -> Picture:
    """Text with the escape codes of a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=400, color_system="truecolor")
    lines = Text.from_ansi(text.strip("\n")).split("\n", allow_blank=True)
    return [[(part.text, str(part.style or "")) for part in line.render(console) if part.text] for line in lines]


def _numbers(obs: Any) -> Picture:
    numbers = np.ravel(obs)
    shown = [f"{number:>10.4g}" for number in numbers[:MOST_NUMBERS].tolist()]
    lines = [shown[i : i + NUMBERS_PER_LINE] for i in range(0, len(shown), NUMBERS_PER_LINE)]
    picture: Picture = [[("observation", "dim")], *([("".join(line), "")] for line in lines)]
    if len(numbers) > MOST_NUMBERS:
        picture.append([(f"and {len(numbers) - MOST_NUMBERS} more", "dim")])
    return picture
