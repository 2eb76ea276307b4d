"""Reads batches of observations back: hands, the trick on the table, cards that are out, points. For rule-based players."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.hearts import information
from hotlap.envs.hearts.cards import NUM_CARDS, NUM_SUITS
from hotlap.envs.hearts.information import PLACES, POINTS_OFFSET, THERMOMETER
from hotlap.envs.hearts.rules import NUM_SEATS, NUM_TRICKS

UNKNOWN = -1
Cards = NDArray[np.bool_]  # [B, 52]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """What the seat to move sees, a row per table."""

    passing: NDArray[np.bool_]  # [B]
    hand: Cards
    unseen: Cards  # in the hands of the other three
    on_table: Cards  # the trick so far
    turn: Numbers  # [B]: how many cards are on the table
    suit: Numbers  # [B]: of the trick on the table, or of the last one: the suit led,
    best: Numbers  # [B]: the highest card of that suit,
    holder: Numbers  # [B]: and who has played it
    first_trick: NDArray[np.bool_]  # [B]
    points: Numbers  # [B, 4]
    seat: Numbers  # [B]: whose turn it is; UNKNOWN before the first card is played, as an observation does not tell then


def read(obs: NDArray[Any]) -> View:
    """A batch of observations of any form."""
    rows, ones = information.places(obs)
    batch = len(obs)

    def section(begin: int, width: int) -> NDArray[np.bool_]:
        inside = (ones >= begin) & (ones < begin + width)
        values = np.zeros((batch, width), np.bool_)
        values[rows[inside], ones[inside] - begin] = True
        return values

    hand, received = section(information.HAND, NUM_CARDS), section(information.RECEIVED, NUM_CARDS)
    thermometers = section(information.POINTS, NUM_SEATS * THERMOMETER).reshape(batch, NUM_SEATS, THERMOMETER)
    tricks = _tricks(rows, ones, batch)
    played = np.zeros((batch, NUM_CARDS + 1), np.bool_)  # a column for places without a card
    np.put_along_axis(played, tricks.reshape(batch, -1), True, axis=1)
    count = played[:, :NUM_CARDS].sum(1)
    number, turn = np.divmod(count, NUM_SEATS)
    leader, suit, best, holder = _standing(tricks[np.arange(batch), np.where(turn > 0, number, number - 1)])
    on_table = np.zeros((batch, NUM_CARDS + 1), np.bool_)
    np.put_along_axis(on_table, tricks[np.arange(batch), np.minimum(number, NUM_TRICKS - 1)], turn[:, None] > 0, axis=1)
    return View(
        passing=~section(information.DIRECTION, 1)[:, 0] & ~received.any(1),
        hand=hand,
        unseen=~hand & ~played[:, :NUM_CARDS],
        on_table=on_table[:, :NUM_CARDS],
        turn=turn,
        suit=suit,
        best=best,
        holder=holder,
        first_trick=number == 0,
        points=thermometers.sum(2) - POINTS_OFFSET,
        seat=np.where(turn > 0, (leader + turn) % NUM_SEATS, np.where(number > 0, holder, UNKNOWN)),
    )


def _tricks(rows: Numbers, ones: Numbers, batch: int) -> Numbers:
    """The card in each place of each trick, [B, 13, 7]; NUM_CARDS where there is none."""
    inside = ones >= information.TRICKS
    places, cards = np.divmod(ones[inside] - information.TRICKS, NUM_CARDS)
    tricks = np.full((batch, NUM_TRICKS * PLACES), NUM_CARDS)
    tricks[rows[inside], places] = cards
    return tricks.reshape(batch, NUM_TRICKS, PLACES)


def _standing(trick: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Of a trick [B, 7]: who led, which suit, the highest card of that suit, and who played it."""
    leader = (trick < NUM_CARDS).argmax(1)
    suit = trick[np.arange(len(trick)), leader] % NUM_SUITS
    following = np.where((trick < NUM_CARDS) & (trick % NUM_SUITS == suit[:, None]), trick, UNKNOWN)
    return leader, suit, following.max(1), following.argmax(1) % NUM_SEATS
