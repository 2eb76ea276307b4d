"""A player by rule: ducks tricks, gets rid of the queen of spades and of high cards, guards against the moon.

It sees what a policy sees and plays whole batches at once. Every legal card gets a score, by what there is to do: pass, lead,
follow suit, or discard; the highest is played. The jack of diamonds and other options mean nothing to it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.hearts.cards import HEARTS, NUM_CARDS, NUM_RANKS, NUM_SUITS, QUEEN_OF_SPADES, SPADES
from hotlap.envs.hearts.rules import NUM_SEATS, QUEEN_POINTS
from hotlap.envs.hearts.view import View, read

CARD = np.arange(NUM_CARDS)
RANK, SUIT = CARD // NUM_SUITS, CARD % NUM_SUITS
QUEEN, HEART = CARD == QUEEN_OF_SPADES, SUIT == HEARTS
ABOVE_QUEEN = (SUIT == SPADES) & (CARD > QUEEN_OF_SPADES)
PENALTY = HEART + QUEEN_POINTS * QUEEN
MOON_ALARM = 7  # points of one seat, none of the others
Scores = NDArray[np.float64]  # [B, 52]


def play_by_rules(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """The card of each seat to move; equal ones are drawn."""
    view = read(obs)
    follows = (view.turn > 0) & (view.hand & (view.suit[:, None] == SUIT)).any(1)
    kind = np.where(view.passing, 0, np.where(view.turn == 0, 1, np.where(follows, 2, 3)))
    scores = np.choose(kind[:, None], [_score_pass(view), _score_lead(view), _score_follow(view), _score_discard(view)])
    chosen: NDArray[np.int64] = np.where(mask, scores + 1e-3 * rng.random(mask.shape), -np.inf).argmax(1)
    return chosen


def _score_pass(view: View) -> Scores:
    """The queen of spades and those above it, unless low spades cover them; high hearts; high cards of short suits."""
    length = _by_suit(view.hand)
    spades = length[:, SPADES, None]
    scores = RANK + 3.0 * (4 - np.minimum(length, 4))[:, SUIT] + 4.0 * HEART
    scores = np.where(SUIT == SPADES, -10.0, scores)
    scores = np.where(ABOVE_QUEEN, np.where(spades > 4, 0.0, 30.0), scores)
    return np.where(QUEEN, np.where(spades > 4, 0.0, 40.0), scores)


def _score_lead(view: View) -> Scores:
    """Cards that others will beat; no spades above the queen, nor from it, while it is out."""
    above, left = _unseen_above(view)
    beaten = above / np.maximum(left, 1)
    likely_void = np.maximum(0, 9 - left) / 9
    queen_out, queen_held = view.unseen[:, QUEEN_OF_SPADES, None], view.hand[:, QUEEN_OF_SPADES, None]
    cost = 1.0 + 6.0 * likely_void + 4.0 * HEART + 8.0 * (ABOVE_QUEEN & queen_out) + 12.0 * QUEEN
    cost = cost + 5.0 * ((SUIT == SPADES) & queen_held)
    draws_queen = (SUIT == SPADES) & (CARD < QUEEN_OF_SPADES) & queen_out
    scores: Scores = -cost * (1 - beaten) - 5.0 * ((SUIT == SPADES) & queen_held) + 2.0 * draws_queen + 0.05 * RANK
    return scores


def _score_follow(view: View) -> Scores:
    """The highest card that loses; else, last or without hope, the highest; else the lowest. Against the moon, a trick with
    points is taken."""
    above, _ = _unseen_above(view)
    loses = view.best[:, None] > CARD
    last = view.turn[:, None] == NUM_SEATS - 1
    penalty = (view.on_table * PENALTY).sum(1)[:, None]
    free = (last & (penalty == 0)) | view.first_trick[:, None]
    queen_out = view.unseen[:, QUEEN_OF_SPADES, None]
    takes = np.where(last | (above == 0), RANK, 20.0 - RANK) - 20.0 - 30.0 * QUEEN - 10.0 * (ABOVE_QUEEN & queen_out & ~last)
    scores = np.where(loses, 20.0 + RANK + 50.0 * QUEEN, takes)
    scores = np.where(free & ~QUEEN & ~loses, 20.0 + RANK, scores)
    guard = _moon_threat(view) & (penalty > 0) & ~loses
    return np.where(guard, 90.0 + RANK - 60.0 * QUEEN, scores)


def _score_discard(view: View) -> Scores:
    """The queen of spades, spades above it while it is out, hearts, high cards; no points for whoever may shoot the moon."""
    above, left = _unseen_above(view)
    risk = (left - above) / np.maximum(left, 1)  # of taking a trick with it
    queen_out = view.unseen[:, QUEEN_OF_SPADES, None]
    scores = 10.0 * risk + RANK + 12.0 * HEART + 100.0 * QUEEN + 40.0 * (ABOVE_QUEEN & queen_out)
    feeds = _moon_threat(view) & (view.holder == view.points.argmax(1))[:, None]
    spared: Scores = scores - 200.0 * (feeds & (PENALTY > 0))
    return spared


def _moon_threat(view: View) -> NDArray[np.bool_]:
    """Whether another seat has taken all points so far, and many; [B, 1]."""
    leader = view.points.argmax(1)
    alone = (view.points > 0).sum(1) == 1
    threat: NDArray[np.bool_] = (alone & (view.points.max(1) >= MOON_ALARM) & (leader != view.seat))[:, None]
    return threat


def _unseen_above(view: View) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each card, how many cards of its suit the others hold: higher ones, and all; [B, 52] both."""
    unseen = view.unseen.reshape(-1, NUM_RANKS, NUM_SUITS)
    up_to = unseen.cumsum(1)
    left = np.broadcast_to(up_to[:, -1:], up_to.shape)
    return (left - up_to).reshape(-1, NUM_CARDS), left.reshape(-1, NUM_CARDS)


def _by_suit(cards: NDArray[np.bool_]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = cards.reshape(-1, NUM_RANKS, NUM_SUITS).sum(1)
    return counts
