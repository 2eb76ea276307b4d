"""What a seat sees, from where it sits: the table of `information.py` in fewer numbers, for networks that learn fast.

Seats are counted from the seat to move: 0 itself, 1 to its left, and so on; so what one seat learns all four know. In which
trick a card fell is left out. What a player would keep in mind is there: who is void in a suit, who holds the cards one passed.

| from | length | what |
|---|---|---|
| 0 | 52 | cards in its hand |
| 52 | 4 x 52 | cards that each seat has played |
| 260 | 3 x 52 | cards on the table, of each other seat |
| 416 | 3 x 52 | cards that each other seat was passed by it and has not played |
| 572 | 52 | the card that takes the trick, so far |
| 624 | 3 x 4 | suits that each other seat did not follow |
| 636 | 4 x 26 | points of each seat from 1 to 26, one-hot |
| 740 | 13 | number of the trick, one-hot; none while cards are passed |
| 753 | 4 | cards on the table, one-hot; none while cards are passed |
| 757 | 4 | suit led, one-hot |
| 761 | 1 | hearts are broken |
| 762 | 4 | pass direction, one-hot |
| 766 | 3 | while cards are passed: how many it has chosen, one-hot |
| 769 | 52 | cards in its hand that would hold the trick now |
| 821 | 52 | cards in its hand above which the others have none of the suit |
| 873 | 4 x 13 | how many cards of each suit the others have, from 1 to 13, one-hot |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotlap.envs.hearts.cards import NUM_CARDS, NUM_RANKS, NUM_SUITS, suit_of
from hotlap.envs.hearts.rules import ALL_POINTS, CARDS_PASSED, NUM_SEATS, NUM_TRICKS

if TYPE_CHECKING:
    from hotlap.envs.hearts.reference import Hearts

OTHERS = NUM_SEATS - 1

HAND = 0
PLAYED = HAND + NUM_CARDS
TABLE = PLAYED + NUM_SEATS * NUM_CARDS
GIVEN = TABLE + OTHERS * NUM_CARDS
BEST = GIVEN + OTHERS * NUM_CARDS
VOID = BEST + NUM_CARDS
POINTS = VOID + OTHERS * NUM_SUITS
TRICK = POINTS + NUM_SEATS * ALL_POINTS
TURN = TRICK + NUM_TRICKS
SUIT = TURN + NUM_SEATS
BROKEN = SUIT + NUM_SUITS
DIRECTION = BROKEN + 1
PASSING = DIRECTION + NUM_SEATS
HOLDS = PASSING + CARDS_PASSED
HIGHEST = HOLDS + NUM_CARDS
OUT = HIGHEST + NUM_CARDS
SIZE = OUT + NUM_CARDS

# Hand and cards played; on the table, given, the best; voids; points; five facts about the trick; what the hand can do; suits.
MOST_ONES = NUM_CARDS + OTHERS + CARDS_PASSED + 1 + OTHERS * NUM_SUITS + NUM_SEATS + 5 + 2 * NUM_TRICKS + NUM_SUITS

CONSTANTS = {  # for the kernel
    "REL_HAND": HAND,
    "REL_PLAYED": PLAYED,
    "REL_TABLE": TABLE,
    "REL_GIVEN": GIVEN,
    "REL_BEST": BEST,
    "REL_VOID": VOID,
    "REL_POINTS": POINTS,
    "REL_TRICK": TRICK,
    "REL_TURN": TURN,
    "REL_SUIT": SUIT,
    "REL_BROKEN": BROKEN,
    "REL_DIRECTION": DIRECTION,
    "REL_PASSING": PASSING,
    "REL_HOLDS": HOLDS,
    "REL_HIGHEST": HIGHEST,
    "REL_OUT": OUT,
}


def ones_of(game: Hearts) -> list[int]:
    """Where the ones are that the seat to move sees."""
    me = game.seat
    ones = [HAND + card for card in game.hands[me]]
    open_trick = game.tricks[-1] if game.tricks and not game.tricks[-1].complete else None
    for trick in game.tricks:
        for turn, card in enumerate(trick.cards):
            seat = (trick.leader + turn - me) % NUM_SEATS
            ones.append(PLAYED + seat * NUM_CARDS + card)
            if trick is open_trick:
                ones.append(TABLE + (seat - 1) * NUM_CARDS + card)
    ones += _given(game)
    best = None if open_trick is None else open_trick.cards[(open_trick.winner - open_trick.leader) % NUM_SEATS]
    if best is not None:
        ones += [BEST + best, SUIT + suit_of(best)]
    for seat, suit in game.voids:
        if seat != me:
            ones.append(VOID + ((seat - me) % NUM_SEATS - 1) * NUM_SUITS + suit)
    for seat, points in enumerate(game.points):
        ones += [POINTS + (seat - me) % NUM_SEATS * ALL_POINTS + points - 1] * (points > 0)
    if game.passing:
        ones.append(PASSING + len(game.passed[me]))
    elif not game.over:
        played = sum(len(trick.cards) for trick in game.tricks)
        ones += [TRICK + played // NUM_SEATS, TURN + played % NUM_SEATS]
    ones += [BROKEN] * game.hearts_broken
    return [*ones, DIRECTION + game.pass_direction, *_strength(game, best)]


def _strength(game: Hearts, best: int | None) -> list[int]:
    """What the cards of the hand can do, and what is out against them."""
    hand = game.hands[game.seat]
    played = {card for trick in game.tricks for card in trick.cards}
    out = [card for card in range(NUM_CARDS) if card not in hand and card not in played]
    ones = [HOLDS + card for card in hand if best is not None and suit_of(card) == suit_of(best) and card > best]
    for suit in range(NUM_SUITS):
        others = [card for card in out if suit_of(card) == suit]
        ones += [HIGHEST + card for card in hand if suit_of(card) == suit and card > max(others, default=-1)]
        ones += [OUT + suit * NUM_RANKS + len(others) - 1] * (len(others) > 0)
    return ones


def _given(game: Hearts) -> list[int]:
    """The cards that it passed on and that were not played since."""
    receiver = (game.seat + game.pass_direction) % NUM_SEATS
    held = game.passed[game.seat] if game.passing else game.hands[receiver]
    return [GIVEN + (game.pass_direction - 1) * NUM_CARDS + card for card in game.passed[game.seat] if card in held]
