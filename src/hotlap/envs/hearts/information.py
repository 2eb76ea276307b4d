"""What a seat sees: OpenSpiel's information state, 5,088 zeros and ones, as floats, as bytes, or as the places of the ones.

| from | length | what |
|---|---|---|
| 0 | 4 | pass direction, one-hot |
| 4 | 52 | cards dealt to this seat |
| 56 | 52 | cards it has passed |
| 108 | 52 | cards it has received, once all have passed |
| 160 | 52 | cards in its hand now |
| 212 | 4 x 36 | points of each seat, as a thermometer: points + 10 ones |
| 356 | 13 x 7 x 52 | tricks: each has seven places, N E S W N E S, and fills four of them from its leader on |
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.hearts import relative
from hotlap.envs.hearts.cards import NUM_CARDS
from hotlap.envs.hearts.rules import ALL_POINTS, JACK_POINTS, NUM_SEATS, NUM_TRICKS
from hotlap.envs.spec import EnvSpec

FORMS = ("dense", "bytes", "sparse")
MOST_HISTORY = 6  # whose places are numbers of 16 bits
PLACES = 7  # of a trick
POINTS_OFFSET = -JACK_POINTS
THERMOMETER = POINTS_OFFSET + ALL_POINTS

DIRECTION = 0
DEALT = DIRECTION + NUM_SEATS
PASSED = DEALT + NUM_CARDS
RECEIVED = PASSED + NUM_CARDS
HAND = RECEIVED + NUM_CARDS
POINTS = HAND + NUM_CARDS
TRICKS = POINTS + NUM_SEATS * THERMOMETER
SIZE = TRICKS + NUM_TRICKS * PLACES * NUM_CARDS

# The most ones are seen when the hand is over and someone shot the moon: direction, 13 dealt, 3 passed, 3 received,
# thermometers of 10 and three times 36, 52 cards played. At a decision there are at most 138: in the last trick, when the other
# three have played, all 26 points are taken and one card is left.
MOST_ONES = 1 + 13 + 3 + 3 + (POINTS_OFFSET + 3 * THERMOMETER) + NUM_CARDS
MOST_ONES_AT_DECISION = 1 + 13 + 3 + 3 + 1 + (NUM_SEATS * POINTS_OFFSET + ALL_POINTS) + NUM_CARDS - 1

CONSTANTS = {  # for the kernel
    "AT_DIRECTION": DIRECTION,
    "AT_DEALT": DEALT,
    "AT_PASSED": PASSED,
    "AT_RECEIVED": RECEIVED,
    "AT_HAND": HAND,
    "AT_POINTS": POINTS,
    "AT_TRICKS": TRICKS,
    "NUM_PLACES": SIZE,
    "PLACES": PLACES,
    "POINTS_OFFSET": POINTS_OFFSET,
    "THERMOMETER": THERMOMETER,
    "MOST_ONES": MOST_ONES,
    "MOST_ONES_AT_DECISION": MOST_ONES_AT_DECISION,
}


def size_of(history: int) -> int:
    """How many zeros and ones there are: of each observation, and of the seat."""
    return history * SIZE + NUM_SEATS if history else SIZE


def most_ones(history: int) -> int:
    return MOST_ONES + ((history - 1) * MOST_ONES_AT_DECISION + 1 if history else 0)


def spec(form: str, history: int, metrics: tuple[str, ...]) -> EnvSpec:
    """The declaration of an environment that shows itself in this form."""
    if form not in (*FORMS, "relative"):
        raise ValueError(f"hearts: unknown observation {form!r}; choose one of {', '.join(FORMS)}, relative")
    is_integer = isinstance(history, int) and not isinstance(history, bool)
    if not is_integer or not 0 <= history <= MOST_HISTORY:
        raise ValueError(f"hearts: history must be a whole number from 0 to {MOST_HISTORY}, not {history!r}")
    if form == "relative" and history:
        raise ValueError("hearts: history does not work with relative observations")
    more: dict[str, Any] = {"actions": NUM_CARDS, "masked": True, "seats": NUM_SEATS, "metrics": metrics}
    if form == "relative":
        return EnvSpec.sparse(relative.SIZE, relative.MOST_ONES, **more)
    if form == "sparse":
        return EnvSpec.sparse(size_of(history), most_ones(history), **more)
    return EnvSpec.dense((size_of(history),), 0, 1, "<f4" if form == "dense" else "|u1", **more)


def join(seen: list[list[int]], history: int, seat: int) -> list[int]:
    """The ones of the last observations of a seat, oldest first, as those of one row."""
    first = history - len(seen)
    ones = [(first + number) * SIZE + one for number, part in enumerate(seen) for one in part]
    return [*ones, history * SIZE + seat]


def encode(ones: list[int], form: str, history: int = 0) -> NDArray[Any]:
    """An observation with ones at these places."""
    if form == "sparse":
        row = np.full(1 + most_ones(history), size_of(history), np.int16)
        row[0] = len(ones)
        row[1 : 1 + len(ones)] = sorted(ones)
        return row
    values = np.zeros(size_of(history), np.float32 if form == "dense" else np.uint8)
    values[ones] = 1
    return values


def places(obs: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and place of every one in a batch of observations [B, ...] of any form, in order; of a history, the present one."""
    if obs.dtype == np.int16:
        width = obs.shape[1] - 1
        counted = np.arange(width) < obs[:, :1]
        rows, ones = np.nonzero(counted)[0], obs[:, 1:][counted].astype(np.int64)
        history = (width - most_ones(1)) // MOST_ONES_AT_DECISION + 1 if width > MOST_ONES else 1
        begin = (history - 1) * SIZE
        now = (ones >= begin) & (ones < begin + SIZE)
        return rows[now], ones[now] - begin
    history = obs.shape[1] // SIZE
    obs = obs[:, (history - 1) * SIZE : history * SIZE]
    rows, ones = np.nonzero(obs.view(np.bool_) if obs.dtype == np.uint8 else obs)
    return rows, ones
