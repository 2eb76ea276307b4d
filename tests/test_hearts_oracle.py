"""Hearts against OpenSpiel: seat to move, legal cards, the whole information state and the returns, at every decision."""

from dataclasses import fields
from functools import cache

import numpy as np
import pytest

from hotlap.envs.hearts.cards import NUM_CARDS, parse_card
from hotlap.envs.hearts.reference import Hearts
from hotlap.envs.hearts.rules import NUM_SEATS, Rules

pyspiel = pytest.importorskip("pyspiel")
OPTIONS = [field.name for field in fields(Rules)]
ALL_RULES = [dict(zip(OPTIONS, (bool(number >> bit & 1) for bit in range(8)), strict=True)) for number in range(256)]
HANDS_PER_RULES = 40
assert len(ALL_RULES) * HANDS_PER_RULES >= 10_000


@cache
def oracle(number):
    """OpenSpiel's game with the options of that number, and its observer."""
    from open_spiel.python.observation import make_observation

    game = pyspiel.load_game("hearts", ALL_RULES[number])
    return game, make_observation(game, pyspiel.IIGObservationType(perfect_recall=True))


def dealt(number, env):
    """OpenSpiel's state after the deal of `env`. Chance is driven by us: without passing, OpenSpiel offers four directions."""
    state = oracle(number)[0].new_initial_state()
    state.apply_action(env.pass_direction)
    for cards in zip(*(sorted(hand) for hand in env.dealt), strict=True):
        for card in cards:
            state.apply_action(card)
    return state


def follow(number, env, obs, info, choose):
    """Play a hand on both; `choose(env, legal)` chooses. Returns the rewards."""
    state, observer = dealt(number, env), oracle(number)[1]
    while not state.is_terminal():
        legal = state.legal_actions()
        observer.set_from(state, env.seat)
        np.testing.assert_array_equal(obs, observer.tensor)
        assert (info["seat"], np.flatnonzero(info["action_mask"]).tolist()) == (state.current_player(), legal)
        card = choose(env, legal)
        state.apply_action(card)
        obs, _, terminated, _, info = env.step(card)
        assert terminated == state.is_terminal()
    observer.set_from(state, env.seat)
    np.testing.assert_array_equal(obs, observer.tensor)
    assert info["rewards"].tolist() == state.returns()
    return info["rewards"].tolist()


def follow_random_hands(number, hands):
    rng = np.random.default_rng(number)
    env = Hearts(**ALL_RULES[number])
    obs, info = env.reset(seed=number)
    for _ in range(hands):
        follow(number, env, obs, info, lambda _, legal: int(rng.choice(legal)))
        obs, info = env.reset()


@pytest.mark.parametrize("numbers", [range(0, 256, 37), range(11, 256, 37)])
def test_random_hands(numbers):
    for number in numbers:
        follow_random_hands(number, 2)


@pytest.mark.exact
@pytest.mark.parametrize("first", range(0, 256, 16))
def test_ten_thousand_random_hands_over_all_options(first):
    for number in range(first, first + 16):
        follow_random_hands(number, HANDS_PER_RULES)


# -- the moon, on purpose --


def cards(names):
    return [parse_card(name) for name in names.split()]


WINNERS = cards("AC KC QC AD KD AS KS QS AH KH QH JH TH")


def moon_deal(shooter, direction, winners, rng):
    """Four hands of which `shooter` has all of `winners` once three cards were passed, and what each seat is to pass."""
    leader = (shooter + 1) % NUM_SEATS  # holds the two of clubs
    rest = rng.permutation([card for card in range(1, NUM_CARDS) if card not in winners]).tolist()
    after = {shooter: list(winners), leader: [0, *rest[:12]]}
    for seat in range(NUM_SEATS):
        if seat not in after:
            after[seat] = rest[12:25] if len(after) == 2 else rest[25:]
    if not direction:
        return [after[seat] for seat in range(NUM_SEATS)], [[]] * NUM_SEATS
    received = {seat: rng.permutation(after[seat])[:3].tolist() for seat in range(NUM_SEATS)}
    passed = [received[(seat + direction) % NUM_SEATS] for seat in range(NUM_SEATS)]
    return [[card for card in after[seat] if card not in received[seat]] + passed[seat] for seat in range(NUM_SEATS)], passed


def shoot(number, shooter, direction, winners, seed):
    """A hand in which `shooter` plays its winners from the top, and the others at random; the environment and the rewards."""
    rng = np.random.default_rng(seed)
    deal, passed = moon_deal(shooter, direction, winners, rng)
    env = Hearts(**ALL_RULES[number])
    obs, info = env.reset(options={"deal": deal, "pass_direction": direction})

    def choose(env, legal):
        if env.passing:
            return next(card for card in passed[env.seat] if card in legal)
        if env.seat == shooter:
            return next(card for card in winners if card in legal)
        return int(rng.choice(legal))

    return env, follow(number, env, obs, info, choose)


def shoot_with(numbers):
    for number in numbers:
        rules = ALL_RULES[number]
        direction = number % 4 if rules["pass_cards"] else 0
        shooter = number // 4 % NUM_SEATS
        env, rewards = shoot(number, shooter, direction, WINNERS, number)
        assert env.metrics()[0] == 1
        expected = [0.0] * NUM_SEATS
        expected[shooter] = 36.0 if rules["jd_bonus"] else 26.0  # with every trick comes the jack
        assert rewards == expected


def test_the_moon_is_shot():
    shoot_with(range(3, 256, 17))


@pytest.mark.exact
def test_the_moon_is_shot_with_all_options():
    shoot_with(range(256))


def test_the_moon_without_the_jack_of_diamonds():
    """Another seat takes the jack: 10 points off for it, and 26 more, as for the others."""
    winners = cards("AC KC QC AS KS QS JS 2D AH KH QH JH TH")
    number = ALL_RULES.index({**ALL_RULES[0], "jd_bonus": True, "must_break_hearts": True, "no_pts_on_first_trick": True})
    seen = set()
    for seed in range(60):
        env, rewards = shoot(number, 0, 0, winners, seed)
        if env.shooter() == 0:
            seen.add(tuple(rewards))
    assert {(26.0, 10.0, 0.0, 0.0), (26.0, 0.0, 10.0, 0.0), (26.0, 0.0, 0.0, 10.0)} & seen


def test_a_trick_with_hearts_lost_is_no_moon():
    """The same with the two of hearts, led as soon as the queen has broken hearts, for the ten."""
    winners = cards("AC KC QC AS KS QS 2H AD KD AH KH QH JH")
    for seed in range(10):
        env, rewards = shoot(255, 0, 0, winners, seed)
        assert env.shooter() is None
        assert env.metrics()[0] == 0
        takers = {trick.winner for trick in env.tricks}
        assert sum(rewards) == 3 * 26 + 10 + 5 * (4 - len(takers))  # with both bonuses
