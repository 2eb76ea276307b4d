"""Hearts in plain Python: the specification that `kernel.h` must equal bit for bit.

The rules, their options and the observation are those of OpenSpiel's `hearts`, which the tests hold this file to. Constants are
written once, here, in `cards.py` and in `information.py`; the engine hands them to the C kernel as macros.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotlap.envs.hearts import drawing, information, relative, rules
from hotlap.envs.hearts.bots import play_by_rules
from hotlap.envs.hearts.cards import (
    CLUBS,
    HEARTS,
    JACK_OF_DIAMONDS,
    NUM_CARDS,
    QUEEN_OF_SPADES,
    TWO_OF_CLUBS,
    card_name,
    parse_card,
    parse_deal,
    suit_of,
)
from hotlap.envs.hearts.rules import (
    ALL_POINTS,
    CARDS_PASSED,
    JACK_POINTS,
    NO_TRICKS_POINTS,
    NUM_SEATS,
    Rules,
    Trick,
)
from hotlap.envs.picture import Picture, plain
from hotlap.envs.rng import Rng
from hotlap.envs.start import Start, check_keys

MOST_DECISIONS = NUM_SEATS * CARDS_PASSED + NUM_CARDS
METRICS = ("moon", "points_north", "points_east", "points_south", "points_west")


class Hearts(gymnasium.Env[NDArray[Any], int]):
    """One hand of Hearts, four seats: 0 north, 1 east, 2 south, 3 west, in the order of play.

    **Actions** are the 52 cards: rank x 4 + suit; ranks two to ace are 0 to 12, suits clubs, diamonds, hearts, spades 0 to 3.
    `info["action_mask"]` says which are legal for the seat to move, `info["seat"]`.

    **Deal**: 52 cards one by one, the i-th to seat i % 4. The environment's random numbers decide, in this order: the pass
    direction is `below(4)` (0 if `pass_cards` is off, and then nothing is drawn); the deck 0..51 is shuffled by Fisher-Yates:
    for i from 51 down to 1, card i is swapped with card `below(i + 1)`.

    **Passing** (unless the direction is 0): seats 0, 1, 2, 3 choose three cards each, one per action, from their own cards;
    then all are handed on: 1 left (seat + 1), 2 across (seat + 2), 3 right (seat + 3).

    **Play**: 13 tricks. Whoever holds the two of clubs leads it. Others follow suit if they can, else play anything; the
    highest card of the suit led takes the trick, and its player leads the next. On the first trick no hearts and no queen of
    spades, unless nothing else is held. Hearts may not be led until they are broken (a heart was played, or the queen of
    spades), unless nothing else is held.

    **Points**: 1 for each heart taken, 13 for the queen of spades. Whoever takes all 26 has shot the moon: 26 points off for
    the shooter, 26 points more for each other seat.

    **Reward**: 0, and with the last card 26 - points for each seat (`info["rewards"]`); the reward of a step is that of the
    seat that moved. The hand is then terminated, after 52 decisions or, with passing, 64.

    **Observation** of the seat to move (after the last card: of the seat that took the last trick), see `information.py`; by
    `observation`: `dense` (5,088 floats), `bytes` (the same as bytes), `sparse` (how many ones there are, where they are in
    ascending order, then 5,088 as padding: 191 whole numbers). With `history` n, from 1 to 6: the seat's last n observations of
    this hand, the present one last (those that it has not had yet are zeros in front), then the seat, one-hot: n x 5,088 + 4
    zeros and ones. `relative` is another view of the same table, sparse, see `relative.py`.

    **Options**: `observation`, `history`, and the eight of `rules.Rules`, with OpenSpiel's names and defaults.

    **Start**: `reset(options={"deal": ..., "pass_direction": ...})` fixes either or both; what is not given is random. A deal
    is 52 cards in dealing order, or four hands of 13; cards are numbers or names such as "QS".

    **Metrics** of a hand: `moon` (1 if someone shot it) and the points of each seat.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 2}
    hands: list[set[int]]
    dealt: list[frozenset[int]]
    passed: list[list[int]]
    tricks: list[Trick]  # the last may not be complete
    points: list[int]
    pass_direction: int
    hearts_broken: bool
    seat: int  # whose turn it is
    voids: set[tuple[int, int]]  # seats that did not follow a suit
    past: list[list[list[int]]]  # of each seat: what it saw when it moved last, as far as `history` wants it

    kernel = Path(__file__).with_name("kernel.h")
    bots = {"rules": play_by_rules}
    metrics_by_seat = {"points": METRICS[1:]}

    def __init__(self, observation: str = "dense", render_mode: str | None = None, history: int = 0, **options: bool) -> None:
        self.observation, self.history = observation, history
        self.rules = Rules.of(options)
        self.render_mode = render_mode
        self.env_spec = information.spec(observation, history, METRICS)
        self.observation_space = self.env_spec.observation_space
        self.action_space = self.env_spec.action_space
        self.rng = Rng.unseeded()
        self._start(None, None)

    # -- episode --

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.rng = Rng(seed)
        numbers = self.encode_start(options or {}).numbers
        direction = int(numbers[0]) if len(numbers) and numbers[0] >= 0 else None
        self._start(direction, numbers[1:].tolist() if len(numbers) > 1 else None)
        return self.observe(), self._info()

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        if self.over or not self.action_space.contains(action) or action not in self.legal_cards():
            raise ValueError(f"hearts: {action!r} is no legal card now")
        mover = self.seat
        self._act(int(action))
        rewards = np.zeros(NUM_SEATS, np.float32)
        if self.over:
            rewards[:] = [ALL_POINTS - points for points in self.points]
        return self.observe(), float(rewards[mover]), self.over, False, self._info() | {"rewards": rewards}

    def metrics(self) -> tuple[float, ...]:
        return (float(self.over and self.shooter() is not None), *self.points)

    def mask(self) -> NDArray[np.bool_]:
        legal = np.zeros(NUM_CARDS, np.bool_)
        legal[self.legal_cards()] = True
        return legal

    def _info(self) -> dict[str, Any]:
        return {"seat": self.seat, "action_mask": self.mask()}

    # -- rules --

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        options = {name.upper(): int(value) for name, value in asdict(self.rules).items()}
        form = {"HISTORY": self.history, "RELATIVE": int(self.observation == "relative")}
        return {**options, **form, **rules.CONSTANTS, **information.CONSTANTS, **relative.CONSTANTS}

    @property
    def passing(self) -> bool:
        return self.pass_direction > 0 and len(self.passed[-1]) < CARDS_PASSED

    @property
    def over(self) -> bool:
        return sum(len(trick.cards) for trick in self.tricks) == NUM_CARDS

    def legal_cards(self) -> list[int]:
        """What the seat to move may pass or play."""
        hand = sorted(self.hands[self.seat])
        if self.passing or not hand:
            return hand
        if not self.tricks:
            return [card for card in hand if card == TWO_OF_CLUBS or (self.rules.can_lead_any_club and suit_of(card) == CLUBS)]
        if self.tricks[-1].complete:
            return self._legal_leads(hand)
        following = [card for card in hand if suit_of(card) == suit_of(self.tricks[-1].cards[0])]
        if not following and self.rules.no_pts_on_first_trick and len(self.tricks) == 1:
            following = [card for card in hand if suit_of(card) != HEARTS and card != QUEEN_OF_SPADES]
        return following or hand

    def _legal_leads(self, hand: list[int]) -> list[int]:
        leads = hand if self.hearts_broken else [card for card in hand if suit_of(card) != HEARTS]
        if self.rules.can_lead_hearts_instead_of_qs and leads == [QUEEN_OF_SPADES]:
            return hand
        return leads or hand

    def shooter(self) -> int | None:
        """The seat that has taken all 26 points, the jack of diamonds apart."""
        takers = {trick.winner for trick in self.tricks if trick.penalty}
        return takers.pop() if len(takers) == 1 and self.over else None

    def _start(self, direction: int | None, deal: list[int] | None) -> None:
        if direction is None:
            direction = self.rng.below(NUM_SEATS) if self.rules.pass_cards else 0
        if deal is None:
            deal = list(range(NUM_CARDS))
            for i in range(NUM_CARDS - 1, 0, -1):
                j = self.rng.below(i + 1)
                deal[i], deal[j] = deal[j], deal[i]
        self.pass_direction = direction
        self.dealt = [frozenset(deal[seat::NUM_SEATS]) for seat in range(NUM_SEATS)]
        self.hands = [set(hand) for hand in self.dealt]
        self.passed = [[] for _ in range(NUM_SEATS)]
        self.tricks = []
        self.points = [0] * NUM_SEATS
        self.voids, self.past = set(), [[] for _ in range(NUM_SEATS)]
        self.hearts_broken = not self.rules.must_break_hearts
        self.seat = 0 if self.passing else self._holder_of_two_of_clubs()

    def _holder_of_two_of_clubs(self) -> int:
        return next(seat for seat, hand in enumerate(self.hands) if TWO_OF_CLUBS in hand)

    def _act(self, card: int) -> None:
        if self.history > 1:
            self.past[self.seat] = [*self.past[self.seat], self._ones(self.seat)][1 - self.history :]
        (self._pass if self.passing else self._play)(card)

    def _pass(self, card: int) -> None:
        self.hands[self.seat].remove(card)
        self.passed[self.seat].append(card)
        if len(self.passed[self.seat]) < CARDS_PASSED:
            return
        self.seat += 1
        if not self.passing:
            for seat, cards in enumerate(self.passed):
                self.hands[(seat + self.pass_direction) % NUM_SEATS].update(cards)
            self.seat = self._holder_of_two_of_clubs()

    def _play(self, card: int) -> None:
        self.hands[self.seat].remove(card)
        if not self.tricks or self.tricks[-1].complete:
            self.tricks.append(Trick(self.seat, []))
        trick = self.tricks[-1]
        trick.cards.append(card)
        if suit_of(card) != suit_of(trick.cards[0]):
            self.voids.add((self.seat, suit_of(trick.cards[0])))
        if suit_of(card) == HEARTS or (self.rules.qs_breaks_hearts and card == QUEEN_OF_SPADES):
            self.hearts_broken = True
        if not trick.complete:
            self.seat = (self.seat + 1) % NUM_SEATS
            return
        self.seat = trick.winner
        self.points[self.seat] += trick.penalty
        if self.rules.jd_bonus and JACK_OF_DIAMONDS in trick.cards:
            self.points[self.seat] += JACK_POINTS
        if self.over:
            self._count_the_hand()

    def _count_the_hand(self) -> None:
        shooter = self.shooter()
        winners = {trick.winner for trick in self.tricks}
        for seat in range(NUM_SEATS):
            if shooter is not None:
                self.points[seat] += -ALL_POINTS if seat == shooter else ALL_POINTS
            elif self.rules.avoid_all_tricks_bonus and seat not in winners:
                self.points[seat] += NO_TRICKS_POINTS

    # -- observation --

    def observe(self) -> NDArray[Any]:
        if self.observation == "relative":
            return self.env_spec.sparse_row(sorted(relative.ones_of(self)))
        ones = self._ones(self.seat)
        if self.history:
            ones = information.join([*self.past[self.seat], ones], self.history, self.seat)
        return information.encode(ones, self.observation, self.history)

    def received(self, seat: int) -> list[int]:
        """What a seat was passed, once all have passed."""
        return [] if self.passing else self.passed[(seat - self.pass_direction) % NUM_SEATS]

    def _ones(self, seat: int) -> list[int]:
        ones = [information.DIRECTION + self.pass_direction]
        ones += [information.DEALT + card for card in self.dealt[seat]]
        ones += [information.PASSED + card for card in self.passed[seat]]
        ones += [information.RECEIVED + card for card in self.received(seat)]
        ones += [information.HAND + card for card in self.hands[seat]]
        for other, points in enumerate(self.points):
            begin = information.POINTS + other * information.THERMOMETER
            ones += range(begin, begin + points + information.POINTS_OFFSET)
        for number, trick in enumerate(self.tricks):
            for turn, card in enumerate(trick.cards):
                place = number * information.PLACES + trick.leader + turn
                ones.append(information.TRICKS + place * NUM_CARDS + card)
        return ones

    # -- for people --

    def draw(self) -> Picture:
        """The table with all cards, or the finished hand."""
        return drawing.draw(self)

    def draw_for(self, seat: int) -> Picture:
        """The same without the cards of the other seats."""
        return drawing.draw(self, seat)

    @property
    def hides_moves(self) -> bool:
        """Whether the other seats do not see what the seat to move does."""
        return self.passing

    def render(self) -> str:
        return plain(self.draw())

    def describe_action(self, action: int) -> str:
        return card_name(action)

    def parse_action(self, text: str) -> int:
        """The card that a person names; it must be legal."""
        card = parse_card(text)
        if not self.mask()[card]:
            raise ValueError(f"hearts: {card_name(card)} cannot be {'passed' if self.passing else 'played'} now")
        return card

    # -- saving and fixing the state --

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check a start: the pass direction (-1: random), then, if it is fixed, the deal in dealing order."""
        check_keys("hearts", options, "deal", "pass_direction")
        direction = options.get("pass_direction")
        numbers = [] if options.get("deal") is None else parse_deal(options["deal"])
        if direction is not None:
            whole = isinstance(direction, int | np.integer) and not isinstance(direction, bool)
            if not whole or not 0 <= direction < NUM_SEATS:
                raise ValueError(f"hearts: pass_direction must be 0 none, 1 left, 2 across or 3 right, not {direction!r}")
            if direction and not self.rules.pass_cards:
                raise ValueError(f"hearts: pass_direction must be 0, not {direction}, as pass_cards is off")
        elif not numbers:
            return Start()
        return Start(np.array([-1 if direction is None else direction, *numbers], np.int32))

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly.

        Random numbers, direction, deal, and the actions since: the rest follows from them.
        """
        deal = [card for turn in zip(*(sorted(hand) for hand in self.dealt), strict=True) for card in turn]
        actions = [card for cards in self.passed for card in cards] + [card for trick in self.tricks for card in trick.cards]
        numbers = [self.rng.key, self.rng.counter, self.pass_direction, len(actions), *deal]
        return np.array(numbers + actions + [0] * (MOST_DECISIONS - len(actions)), np.uint64)

    def unpack(self, state: NDArray[np.uint64]) -> None:
        numbers = [int(value) for value in state]
        self.rng.key, self.rng.counter, direction, count = numbers[:4]
        self._start(direction, numbers[4 : 4 + NUM_CARDS])
        for card in numbers[4 + NUM_CARDS :][:count]:
            self._act(card)
