"""The options of the game, with OpenSpiel's names and defaults, and how a trick is counted."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from hotlap.envs.hearts.cards import CLUBS, HEARTS, JACK_OF_DIAMONDS, NUM_CARDS, QUEEN_OF_SPADES, TWO_OF_CLUBS, suit_of

NUM_SEATS, NUM_TRICKS = 4, 13
CARDS_PASSED = 3
ALL_POINTS = 26  # one for each heart, 13 for the queen of spades
QUEEN_POINTS, JACK_POINTS, NO_TRICKS_POINTS = 13, -10, -5

CONSTANTS = {  # for the kernel
    "NUM_SEATS": NUM_SEATS,
    "NUM_TRICKS": NUM_TRICKS,
    "NUM_CARDS": NUM_CARDS,
    "CLUBS": CLUBS,
    "HEARTS": HEARTS,
    "TWO_OF_CLUBS": TWO_OF_CLUBS,
    "JACK_OF_DIAMONDS": JACK_OF_DIAMONDS,
    "QUEEN_OF_SPADES": QUEEN_OF_SPADES,
    "CARDS_PASSED": CARDS_PASSED,
    "ALL_POINTS": ALL_POINTS,
    "QUEEN_POINTS": QUEEN_POINTS,
    "JACK_POINTS": JACK_POINTS,
    "NO_TRICKS_POINTS": NO_TRICKS_POINTS,
}


@dataclass(frozen=True)
class Rules:
    """All on or off."""

    pass_cards: bool = True
    """Cards are passed before play, unless the direction is 0."""
    no_pts_on_first_trick: bool = True
    """No hearts and no queen of spades on the first trick, unless nothing else is held."""
    can_lead_any_club: bool = False
    """The holder of the two of clubs may lead any club."""
    jd_bonus: bool = False
    """The jack of diamonds takes 10 points off. The moon needs no jack."""
    avoid_all_tricks_bonus: bool = False
    """5 points off for a seat that takes no trick, unless someone shot the moon."""
    must_break_hearts: bool = True
    """Hearts may not be led until they are broken, unless nothing else is held."""
    qs_breaks_hearts: bool = True
    """The queen of spades breaks hearts, as a heart does."""
    can_lead_hearts_instead_of_qs: bool = False
    """Who holds only hearts and the queen of spades may lead hearts, broken or not."""

    @classmethod
    def of(cls, options: Mapping[str, bool]) -> "Rules":
        """The rules that are given by name, the others as usual."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise ValueError(f"hearts: unknown option: {name!r}; the rules are {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool | np.bool_):
                raise ValueError(f"hearts: {field.name} must be True or False, not {value!r}")


@dataclass
class Trick:
    """Up to four cards, in the order in which they were played."""

    leader: int
    cards: list[int]

    @property
    def complete(self) -> bool:
        return len(self.cards) == NUM_SEATS

    @property
    def winner(self) -> int:
        """Who has played the highest card of the suit led."""
        following = [card for card in self.cards if suit_of(card) == suit_of(self.cards[0])]
        return (self.leader + self.cards.index(max(following))) % NUM_SEATS

    @property
    def penalty(self) -> int:
        """One point for each heart, 13 for the queen of spades."""
        hearts = sum(suit_of(card) == HEARTS for card in self.cards)
        return hearts + QUEEN_POINTS * (QUEEN_OF_SPADES in self.cards)
