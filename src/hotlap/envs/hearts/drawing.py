"""How a table looks during a hand, and a finished hand trick by trick."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hotlap.envs.hearts.cards import DIAMONDS, HEARTS, RANKS, SYMBOLS, rank_of, suit_of
from hotlap.envs.hearts.rules import CARDS_PASSED, NUM_SEATS, NUM_TRICKS, Trick
from hotlap.envs.picture import Picture

if TYPE_CHECKING:
    from hotlap.envs.hearts.reference import Hearts

SEAT_NAMES = ("north", "east", "south", "west")
DIRECTIONS = ("no passing", "passing left", "passing across", "passing right")
SUIT_ORDER = (3, 2, 1, 0)  # spades first
INDENT = "      "
Line = list[tuple[str, str]]


def draw(game: Hearts, viewer: int | None = None) -> Picture:
    """One state. `viewer`: as that seat sees it, without the cards of the others."""
    if game.over:
        return [*_tricks(game), [], *_results(game)]
    heading = _passing_line(game) if game.passing else _play_line(game)
    table = [] if game.passing else [*_trick_on_the_table(game), []]
    return [heading, [], *table, *(_seat_line(game, seat, viewer) for seat in range(NUM_SEATS))]


def _passing_line(game: Hearts) -> Line:
    chosen = len(game.passed[game.seat])
    return [
        (DIRECTIONS[game.pass_direction], "bold"),
        (f"   {SEAT_NAMES[game.seat]} chooses card {chosen + 1} of {CARDS_PASSED}", ""),
    ]


def _play_line(game: Hearts) -> Line:
    complete = sum(trick.complete for trick in game.tricks)
    broken = "hearts broken" if game.hearts_broken else "hearts not broken"
    return [(f"trick {complete + 1} of {NUM_TRICKS}", "bold"), (f"   {broken}   {SEAT_NAMES[game.seat]} to play", "")]


def _trick_on_the_table(game: Hearts) -> Picture:
    """The cards of this trick, or, before its first card, of the last one, dimmed."""
    trick = game.tricks[-1] if game.tricks else Trick(game.seat, [])
    by_seat = {(trick.leader + turn) % NUM_SEATS: card for turn, card in enumerate(trick.cards)}
    north, east, south, west = (
        _card(by_seat[seat], dim=trick.complete) if seat in by_seat else (" .", "dim") for seat in range(NUM_SEATS)
    )
    return [
        [(f"{INDENT}      N ", "dim"), north],
        [(f"{INDENT}W ", "dim"), west, ("     E ", "dim"), east],
        [(f"{INDENT}      S ", "dim"), south],
    ]


def _seat_line(game: Hearts, seat: int, viewer: int | None) -> Line:
    turn = seat == game.seat
    line: Line = [("> " if turn else "  ", "bold"), (f"{SEAT_NAMES[seat]:<6}", "bold" if turn else "")]
    line.append((f"{game.points[seat]:>4} points   ", ""))
    if viewer not in (None, seat):
        return [*line, (f"{len(game.hands[seat])} cards", "dim")]
    for suit in SUIT_ORDER:
        line += _suit(suit, (card for card in game.hands[seat] if suit_of(card) == suit))
    if game.passing and game.passed[seat]:
        line += [("  passes", "dim"), *((" ", ""), *_spaced(sorted(game.passed[seat])))]
    return line


def _suit(suit: int, cards: Iterable[int]) -> Line:
    ranks = " ".join(RANKS[rank_of(card)] for card in sorted(cards, reverse=True))
    return [(f"{SYMBOLS[suit]} {ranks or '-'}   ", _style(suit))]


def _tricks(game: Hearts) -> Picture:
    lines: Picture = [[("trick   north  east   south  west    points", "bold")]]
    for number, trick in enumerate(game.tricks, 1):
        line: Line = [(f"{number:>5}  ", "dim")]
        for seat in range(NUM_SEATS):
            text, style = _card(trick.cards[(seat - trick.leader) % NUM_SEATS])
            line.append((">" if seat == trick.leader else " ", "dim"))
            line.append((f"{text}*   ", f"bold {style}".rstrip()) if seat == trick.winner else (f"{text}    ", style))
        lines.append([*line, (f"{trick.penalty or '':>6}", "")])
    return [*lines, [("        > leads, * takes the trick", "dim")]]


def _results(game: Hearts) -> Picture:
    shooter = game.shooter()
    moon: Picture = [] if shooter is None else [[(f"{SEAT_NAMES[shooter]} shot the moon", "bold yellow")]]
    points = [(f"{name} {points}   ", "") for name, points in zip(SEAT_NAMES, game.points, strict=True)]
    return [*moon, [("points  ", "bold"), *points]]


def _spaced(cards: list[int]) -> Line:
    return [part for card in cards for part in (_card(card), (" ", ""))][:-1]


def _card(card: int, dim: bool = False) -> tuple[str, str]:
    return f"{RANKS[rank_of(card)]}{SYMBOLS[suit_of(card)]}", "dim" if dim else _style(suit_of(card))


def _style(suit: int) -> str:
    return "red" if suit in (DIAMONDS, HEARTS) else ""
