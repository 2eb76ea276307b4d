"""Hearts: rules by worked examples, invariants, the kernel against the reference bit for bit, wrong starts.

`test_hearts_oracle.py` compares with OpenSpiel.
"""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.envs.hearts import information
from hotlap.envs.hearts.cards import NUM_CARDS, card_name, parse_card
from hotlap.envs.hearts.reference import Hearts
from hotlap.envs.hearts.rules import NUM_SEATS, Rules
from tests.lockstep import assert_lockstep, random_legal

OPTIONS = tuple(Rules.__dataclass_fields__)
# Every combination of any three options: 16 rows of an orthogonal array, by parities.
PARITIES = (0b0001, 0b0010, 0b0100, 0b1000, 0b0111, 0b1011, 0b1101, 0b1110)
THREE_WISE = [
    {name: bool((number & parity).bit_count() % 2) for name, parity in zip(OPTIONS, PARITIES, strict=True)}
    for number in range(16)
]


def one_suit_each():
    return [[rank * 4 + suit for rank in range(13)] for suit in range(4)]


def names(cards):
    return " ".join(card_name(card) for card in sorted(cards))


def started(deal=None, direction=0, **options):
    env = Hearts(**options)
    obs, info = env.reset(seed=0, options={"deal": deal or one_suit_each(), "pass_direction": direction})
    return env, obs, info


def play_out(env, rng, choose=None):
    """Play to the end; the last step's rewards."""
    while True:
        legal = env.legal_cards()
        *_, terminated, _, info = env.step(choose(env, legal) if choose else int(rng.choice(legal)))
        if terminated:
            return info["rewards"]


# -- rules --


def test_whoever_holds_the_two_of_clubs_leads_it():
    _, _, info = started()
    assert info["seat"] == 0
    assert np.flatnonzero(info["action_mask"]).tolist() == [0]
    _, _, info = started(can_lead_any_club=True)
    assert info["action_mask"].sum() == 13


def test_no_points_on_the_first_trick_unless_nothing_else_is_held():
    env, *_ = started()
    env.step(parse_card("2C"))
    env.step(parse_card("2D"))
    assert (env.seat, len(env.legal_cards())) == (2, 13)  # south has hearts only
    env.step(parse_card("2H"))
    assert "QS" not in names(env.legal_cards())
    env, *_ = started(no_pts_on_first_trick=False)
    for card in ("2C", "2D", "2H"):
        env.step(parse_card(card))
    assert "QS" in names(env.legal_cards())


def test_hearts_are_not_led_until_broken():
    """South takes the first trick with the ace of clubs; the queen of spades and hearts are left."""
    south = [parse_card("AC"), parse_card("QS"), *range(2, 44, 4)]
    rest = [card for card in range(NUM_CARDS) if card not in south]
    deal = [rest[1:14], rest[14:27], south, [rest[0], *rest[27:]]]
    for options, leads in (
        ({}, 1),
        ({"can_lead_hearts_instead_of_qs": True}, 12),
        ({"must_break_hearts": False}, 12),
    ):
        env, *_ = started(deal, **options)
        for _ in range(3):
            env.step(env.legal_cards()[0])
        env.step(parse_card("AC"))
        assert (env.seat, len(env.legal_cards())) == (2, leads)


def test_cards_are_passed_one_by_one_and_handed_on_together():
    env, obs, _ = started(direction=1)
    for seat in range(NUM_SEATS):
        for turn in range(3):
            assert (env.passing, env.seat) == (True, seat)
            assert obs[information.PASSED :][:NUM_CARDS].sum() == turn
            assert obs[information.RECEIVED :][:NUM_CARDS].sum() == 0
            obs, *_ = env.step(turn * 4 + seat)
    assert not env.passing
    assert env.seat == 1  # east holds the two of clubs now
    assert names(env.hands[1]) == "2C 3C 4C 5D 6D 7D 8D 9D TD JD QD KD AD"
    assert names(np.flatnonzero(obs[information.RECEIVED :][:NUM_CARDS])) == "2C 3C 4C"


def test_north_takes_every_trick_and_shoots_the_moon():
    """With clubs against one suit each, nobody else can take a trick."""
    for options, rewards in (
        ({}, [26, 0, 0, 0]),
        ({"jd_bonus": True}, [36, 0, 0, 0]),
        ({"avoid_all_tricks_bonus": True}, [26, 0, 0, 0]),  # not on top of the moon
    ):
        env, *_ = started(**options)
        assert play_out(env, np.random.default_rng(0)).tolist() == rewards
        assert env.metrics() == (1, *(26 - reward for reward in rewards))
        assert len(env._ones(1)) == information.MOST_ONES - 6 - (10 if "jd_bonus" in options else 0)  # nothing was passed


def test_cards_by_name():
    assert [card_name(card) for card in (0, 37, 43, 51)] == ["2C", "JD", "QS", "AS"]
    assert [parse_card(card_name(card)) for card in range(NUM_CARDS)] == list(range(NUM_CARDS))
    env, *_ = started()
    assert (env.describe_action(43), parse_card(" qs "), parse_card("10h")) == ("QS", 43, 34)
    assert env.parse_action("2c\n") == 0
    with pytest.raises(ValueError, match="hearts: 3C cannot be played now"):
        env.parse_action("3c")
    for wrong in ("", "Q", "1S", "QSS", "SQ"):
        with pytest.raises(ValueError, match="is no card: name one by rank"):
            env.parse_action(wrong)


# -- invariants --

RULES = st.fixed_dictionaries({name: st.booleans() for name in OPTIONS})
DEALS = st.permutations(range(NUM_CARDS))


@settings(max_examples=40)
@given(rules=RULES, deal=DEALS, direction=st.integers(0, 3), seed=st.integers(0, 2**32 - 1))
def test_cards_and_points_are_conserved(rules, deal, direction, seed):
    env = Hearts(**rules, observation="sparse")
    env.reset(options={"deal": deal, "pass_direction": direction if rules["pass_cards"] else 0})
    rng = np.random.default_rng(seed)
    decisions = most = 0
    while not env.over:
        on_the_way = chain(*env.passed) if env.passing else ()
        played = [card for trick in env.tricks for card in trick.cards]
        assert sorted([*chain(*env.hands), *on_the_way, *played]) == list(range(NUM_CARDS))
        assert all(trick.complete for trick in env.tricks[:-1])
        obs, _, terminated, _, info = env.step(int(rng.choice(env.legal_cards())))
        decisions += 1
        if not terminated:
            assert not info["rewards"].any()
            most = max(most, int(obs[0]))
    assert decisions == (64 if env.pass_direction else 52)
    assert most <= information.MOST_ONES_AT_DECISION
    assert obs[0] <= information.MOST_ONES
    jack = 10 * rules["jd_bonus"]
    if env.shooter() is None:
        idle = NUM_SEATS - len({trick.winner for trick in env.tricks})
        assert sum(env.points) == 26 - jack - 5 * idle * rules["avoid_all_tricks_bonus"]
    else:
        assert sum(env.points) == 3 * 26 - jack
    assert info["rewards"].tolist() == [26 - points for points in env.points]


@settings(max_examples=10)
@given(rules=RULES, seed=st.integers(0, 2**63), steps=st.integers(0, 63))
def test_a_packed_state_goes_on_as_before(rules, seed, steps):
    env, other, rng = Hearts(**rules), Hearts(**rules), np.random.default_rng(0)
    env.reset(seed=seed)
    for _ in range(steps):
        if env.over:
            break
        env.step(int(rng.choice(env.legal_cards())))
    other.unpack(env.pack())
    np.testing.assert_array_equal(env.observe(), other.observe())
    np.testing.assert_array_equal(env.reset()[0], other.reset()[0])
    np.testing.assert_array_equal(env.pack(), other.pack())


# -- kernel against reference --


def lockstep(num_envs, steps, threads=1, start=None, **options):
    """Step kernel and reference with the same random legal actions and compare everything; how many hands were played."""
    kernel = hotlap.make_vec("hearts", num_envs, seed=7, threads=threads, **options)
    python = hotlap.make_vec("hearts", num_envs, seed=7, turbo=False, **options)
    hands = assert_lockstep(kernel, python, steps, 0, start)
    kernel.close()
    python.close()
    return len(hands)


@pytest.mark.parametrize("observation", information.FORMS)
def test_kernel_equals_reference(observation):
    assert lockstep(5, 140, threads=2, observation=observation) >= 10


@pytest.mark.parametrize(
    "form",
    [
        {"observation": "relative"},
        {"observation": "sparse", "history": 1},
        {"observation": "sparse", "history": 5},
        {"observation": "bytes", "history": 2},
    ],
)
@pytest.mark.parametrize("rules", [{}, THREE_WISE[13]])
def test_kernel_equals_reference_in_other_forms(form, rules):
    assert lockstep(6, 140, **form, **rules) >= 10


@pytest.mark.parametrize("rules", [THREE_WISE[6], THREE_WISE[13]])
def test_kernel_equals_reference_with_other_rules(rules):
    assert lockstep(6, 200, observation="sparse", **rules) >= 18


@pytest.mark.exact
@pytest.mark.parametrize("rules", THREE_WISE)
def test_kernel_equals_reference_for_any_three_options(rules):
    assert lockstep(24, 700, threads=2, observation="sparse", **rules) >= 240


def test_kernel_equals_reference_from_fixed_starts():
    """North shoots the moon again and again; a deal alone, a direction alone, both, and neither."""
    each = [{"deal": one_suit_each(), "pass_direction": 0}, {"deal": one_suit_each()}, {"pass_direction": 2}, None]
    assert lockstep(4, 70, observation="sparse", start={"per_env": each}) >= 4
    env = hotlap.make_vec("hearts", 4, seed=1, observation="bytes")
    obs, info = env.reset(options={"deal": one_suit_each(), "pass_direction": 0})
    assert obs[:, information.DEALT :][:, :52].nonzero()[1].tolist() == list(range(0, 52, 4)) * 4
    for _ in range(52):
        *_, info = env.step(random_legal(info["action_mask"], np.random.default_rng(0)))
    assert info["final_info"]["returns"].tolist() == [[26, 0, 0, 0]] * 4
    assert info["final_info"]["moon"].tolist() == [1] * 4


def test_any_combination_of_three_options_is_covered():
    for a in range(8):
        for b in range(a):
            for c in range(b):
                assert len({tuple(rules[OPTIONS[i]] for i in (a, b, c)) for rules in THREE_WISE}) == 8


def test_all_forms_show_the_same():
    envs = {form: hotlap.make_vec("hearts", 16, seed=3, observation=form) for form in information.FORMS}
    seen = {form: env.reset() for form, env in envs.items()}
    rng = np.random.default_rng(0)
    for _ in range(130):
        dense, bytes_, sparse = (seen[form][0] for form in information.FORMS)
        np.testing.assert_array_equal(dense, bytes_)
        rebuilt = np.zeros((16, information.SIZE + 1), np.uint8)
        np.put_along_axis(rebuilt, sparse[:, 1:].astype(int), 1, 1)
        np.testing.assert_array_equal(rebuilt[:, :-1], bytes_)
        np.testing.assert_array_equal(sparse[:, 0], bytes_.sum(1))
        actions = random_legal(seen["dense"][1]["action_mask"], rng)
        seen = {form: (result[0], result[-1]) for form, result in ((form, env.step(actions)) for form, env in envs.items())}


# -- starts and options that are wrong --


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deal": list(range(51))}, "hearts: a deal has 52 cards, not 51"),
        ({"deal": [*range(51), 43]}, "hearts: QS is in the deal twice"),
        ({"deal": [*range(51), 52]}, "hearts: a card is a whole number from 0 to 51, not 52"),
        ({"deal": [["2C"], [], [], []]}, "hearts: four hands have 13 cards each, not 1, 0, 0, 0"),
        ({"deal": ["XX"] * 52}, "hearts: 'XX' is no card"),
        ({"deal": [1.5] * 52}, "hearts: deal must be 52 cards in dealing order, or four hands of 13"),
        ({"deal": 7}, "hearts: deal must be 52 cards"),
        ({"pass_direction": 7}, "hearts: pass_direction must be 0 none, 1 left, 2 across or 3 right, not 7"),
        ({"pass_direction": True}, "hearts: pass_direction must be"),
        ({"deals": []}, "hearts: unknown reset option 'deals'; it takes deal, pass_direction"),
    ],
)
def test_wrong_starts(turbo, options, message):
    env = hotlap.make_vec("hearts", 2, turbo=turbo, observation="sparse")
    with pytest.raises(ValueError, match=f"^{message}") as failure:
        env.reset(options=options)
    assert "\n" not in str(failure.value)


def test_wrong_options():
    with pytest.raises(ValueError, match="hearts: pass_direction must be 0, not 1, as pass_cards is off"):
        Hearts(pass_cards=False).reset(options={"pass_direction": 1})
    for options, message in (
        ({"jd_bonus": 1}, "hearts: jd_bonus must be True or False, not 1"),
        ({"observation": "pixels"}, "hearts: unknown observation 'pixels'; choose one of dense, bytes, sparse"),
        ({"jd_bonos": True}, "hearts: unknown option: 'jd_bonos'; the rules are pass_cards, "),
    ):
        with pytest.raises(ValueError, match=message):
            hotlap.make_vec("hearts", 2, **options)


@pytest.mark.parametrize("turbo", [True, False])
def test_illegal_cards_are_refused(turbo):
    env = hotlap.make_vec("hearts", 2, turbo=turbo, observation="sparse", seed=0)
    env.reset(options={"deal": one_suit_each(), "pass_direction": 0})
    for card in (1, 4, 52, -1):
        with pytest.raises(ValueError, match=f"action {card} of environment 1 is"):
            env.step([0, card])
