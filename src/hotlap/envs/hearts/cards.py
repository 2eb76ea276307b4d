"""Playing cards as numbers: rank x 4 + suit; ranks two to ace are 0 to 12, suits clubs, diamonds, hearts, spades 0 to 3."""

from operator import index
from typing import Any

NUM_CARDS, NUM_SUITS, NUM_RANKS = 52, 4, 13
CLUBS, DIAMONDS, HEARTS, SPADES = range(NUM_SUITS)
RANKS, SUITS, SYMBOLS = "23456789TJQKA", "CDHS", "♣♦♥♠"


def suit_of(card: int) -> int:
    return card % NUM_SUITS


def rank_of(card: int) -> int:
    return card // NUM_SUITS


def card_name(card: int) -> str:
    """Rank and suit, such as "QS" for the queen of spades."""
    return RANKS[rank_of(card)] + SUITS[suit_of(card)]


def parse_card(text: str) -> int:
    """The card of a name: "QS", "qs", "10h"."""
    name = text.strip().upper().replace("10", "T")
    if len(name) != 2 or name[0] not in RANKS or name[1] not in SUITS:
        raise ValueError(f"hearts: {text.strip()!r} is no card: name one by rank ({RANKS}) and suit ({SUITS}), such as QS")
    return RANKS.index(name[0]) * NUM_SUITS + SUITS.index(name[1])


TWO_OF_CLUBS, JACK_OF_DIAMONDS, QUEEN_OF_SPADES = parse_card("2C"), parse_card("JD"), parse_card("QS")


def parse_deal(deal: Any) -> list[int]:
    """52 cards in dealing order, card i to seat i % 4; given like that, or as four hands of 13. Cards are numbers or names."""
    try:
        cards = list(deal)
        if len(cards) == NUM_SUITS:
            hands = [list(hand) for hand in cards]
            if any(len(hand) != NUM_RANKS for hand in hands):
                raise ValueError(f"hearts: four hands have 13 cards each, not {', '.join(str(len(hand)) for hand in hands)}")
            cards = [card for turn in zip(*hands, strict=True) for card in turn]
        numbers = [parse_card(card) if isinstance(card, str) else index(card) for card in cards]
    except TypeError:
        raise ValueError("hearts: deal must be 52 cards in dealing order, or four hands of 13, as numbers or names") from None
    if len(numbers) != NUM_CARDS:
        raise ValueError(f"hearts: a deal has {NUM_CARDS} cards, not {len(numbers)}")
    for card in numbers:
        if not 0 <= card < NUM_CARDS:
            raise ValueError(f"hearts: a card is a whole number from 0 to {NUM_CARDS - 1}, not {card}")
        if numbers.count(card) > 1:
            raise ValueError(f"hearts: {card_name(card)} is in the deal twice")
    return numbers
