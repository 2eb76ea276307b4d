"""Checks of what a user chooses: red agents, lengths, action sets, and recorded outcomes to replay."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.cage2.chance import Recorded
from hotlap.envs.cage2.scenario import NO_TARGET, NUM_HOSTS, Exploit, RedAgent, Session, Subnet
from hotlap.envs.cage2.tables import MAX_REDS, Settings
from hotlap.envs.start import check_keys

LONGEST = 200  # steps; counts of sessions and decoys, at most one more in a step, are bytes in the kernel
MIXED = "mixed"
AGENT_NAMES = {agent.name.lower(): agent for agent in RedAgent}
LIMITS = ((NO_TARGET, NUM_HOSTS + len(Subnet) - 1), (0, len(Exploit) - 1), (0, 255), (0, len(Session) - 1))


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    known = list(choices)
    if value not in known:
        raise ValueError(f"cage2: unknown {name} {value!r}; choose one of {', '.join(known)}")


def check_length(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LONGEST:
        raise ValueError(f"cage2: episode_length must be a whole number from 1 to {LONGEST}, not {value!r}")
    return value


def parse_red(text: Any) -> tuple[RedAgent, ...]:
    """The agents that a start draws from."""
    if text == MIXED:
        return tuple(RedAgent)
    names = text.split("+") if isinstance(text, str) else []
    if not names or not all(name in AGENT_NAMES for name in names):
        raise ValueError(f"cage2: unknown red {text!r}; choose {', '.join(AGENT_NAMES)}, several joined by +, or {MIXED}")
    if len(names) > MAX_REDS:
        raise ValueError(f"cage2: red can name {MAX_REDS} agents at most, not {len(names)}")
    return tuple(AGENT_NAMES[name] for name in names)


def no_outcomes(length: int) -> NDArray[np.int16]:
    return np.tile(np.array(Recorded(), np.int16), (length, 1))


def read_settings(given: Mapping[str, Any], default: Settings, replay: bool) -> Settings:
    """Those of a start, which has the defaults for what is not given."""
    check_keys("cage2", given, "red", "episode_length", *(["outcomes"] if replay else []))
    reds = parse_red(given["red"]) if "red" in given else default.reds
    length = check_length(given.get("episode_length", default.episode_length))
    if replay and length > default.episode_length:
        raise ValueError(f"cage2: with replay, episode_length can be {default.episode_length} at most, not {length}")
    return Settings(length, reds)


def read_outcomes(given: Mapping[str, Any], length: int) -> NDArray[np.int16]:
    """What to replay."""
    if "outcomes" not in given:
        return no_outcomes(length)
    try:
        outcomes = np.array(given["outcomes"], np.int16)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("cage2: outcomes must be whole numbers") from None
    if outcomes.shape != (length, len(Recorded._fields)):
        raise ValueError(f"cage2: outcomes must be [{length}, {len(Recorded._fields)}] numbers, not {list(outcomes.shape)}")
    for name, column, (low, high) in zip(Recorded._fields, outcomes.T, LIMITS, strict=True):
        if column.min() < low or column.max() > high:
            raise ValueError(f"cage2: outcomes: {name} must be from {low} to {high}")
    return outcomes
