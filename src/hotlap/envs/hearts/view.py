"""Reads batches of observations back: hands, the trick on the table, cards that are out, points. For rule-based players."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.hearts import information, relative
from hotlap.envs.hearts.cards import NUM_CARDS, NUM_SUITS
from hotlap.envs.hearts.information import PLACES, POINTS_OFFSET, THERMOMETER
from hotlap.envs.hearts.rules import ALL_POINTS, CARDS_PASSED, NUM_SEATS, NUM_TRICKS

UNKNOWN = -1
Cards = NDArray[np.bool_]  # [B, 52]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """What the seat to move sees, a row per table. Of relative observations, seats are counted from it."""

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
    if obs.shape[1] == 1 + relative.MOST_ONES:
        return _read_relative(obs)
    rows, ones = information.places(obs)
    batch = len(obs)

    def section(begin: int, width: int) -> NDArray[np.bool_]:
        return _section(rows, ones, batch, begin, width)

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


def _read_relative(obs: NDArray[Any]) -> View:
    batch = len(obs)
    seen = np.zeros((batch, relative.SIZE + 1), np.bool_)  # a column for padding
    np.put_along_axis(seen, obs[:, 1:].astype(np.int64), True, axis=1)

    def section(begin: int, *shape: int) -> NDArray[np.bool_]:
        return seen[:, begin : begin + int(np.prod(shape))].reshape(batch, *shape)

    hand, table = section(relative.HAND, NUM_CARDS), section(relative.TABLE, relative.OTHERS, NUM_CARDS)
    played = section(relative.PLAYED, NUM_SEATS, NUM_CARDS).any(1)
    best = section(relative.BEST, NUM_CARDS)
    return View(
        passing=np.any(section(relative.PASSING, CARDS_PASSED), axis=1),
        hand=hand,
        unseen=~hand & ~played,
        on_table=np.any(table, axis=1),
        turn=table.any(2).sum(1),
        suit=section(relative.SUIT, NUM_SUITS).argmax(1),
        best=np.where(best.any(1), best.argmax(1), UNKNOWN),
        holder=1 + (table & best[:, None]).any(2).argmax(1),
        first_trick=played.sum(1) < NUM_SEATS,
        points=section(relative.POINTS, NUM_SEATS, ALL_POINTS) @ np.arange(1, ALL_POINTS + 1),
        seat=np.zeros(batch, np.int64),
    )


def _section(rows: Numbers, ones: Numbers, batch: int, begin: int, width: int) -> NDArray[np.bool_]:
    inside = (ones >= begin) & (ones < begin + width)
    values = np.zeros((batch, width), np.bool_)
    values[rows[inside], ones[inside] - begin] = True
    return values


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
