"""Hearts: the player by rule, and how a table is drawn."""

import numpy as np
import pytest

import hotlap
from hotlap.envs.hearts import information
from hotlap.envs.hearts.bots import play_by_rules
from hotlap.envs.hearts.cards import NUM_CARDS
from hotlap.envs.hearts.reference import Hearts
from hotlap.envs.hearts.view import UNKNOWN, read
from hotlap.envs.picture import plain
from hotlap.train.rating import play, play_at_random
from tests.test_hearts import play_out, started

# -- players --


def points_per_hand(player, others, hands, seed):
    env = hotlap.make_vec("hearts", hands, observation="sparse")
    points = 26 - play(env, seed, player, others)["return"]
    return points.mean(), 1.96 * points.std() / np.sqrt(hands)


def test_rules_beat_random_play():
    mean, margin = points_per_hand(play_by_rules, play_at_random, 400, 1)
    assert mean + margin < 4.5


@pytest.mark.exact
def test_rules_beat_random_play_over_four_thousand_hands():
    mean, margin = points_per_hand(play_by_rules, play_at_random, 4096, 1)
    assert mean + margin < 4.5
    mean, margin = points_per_hand(play_at_random, play_by_rules, 4096, 2)
    assert mean - margin > 6.5


def test_a_player_by_rule_reads_all_forms_alike():
    env = Hearts(observation="sparse")
    rng = np.random.default_rng(0)
    for seed in range(3):
        env.reset(seed=seed)
        while not env.over:
            rows = [information.encode(env._ones(env.seat), form)[None] for form in information.FORMS]
            mask = np.isin(np.arange(NUM_CARDS), env.legal_cards())[None]
            views = [read(row) for row in rows]
            assert len({int(play_by_rules(row, mask, np.random.default_rng(1))[0]) for row in rows}) == 1
            for view in views:
                trick = env.tricks[-1] if env.tricks and not env.tricks[-1].complete else None
                assert set(np.flatnonzero(view.hand[0])) == env.hands[env.seat]
                assert view.passing[0] == env.passing
                assert view.points[0].tolist() == env.points
                assert view.seat[0] == (env.seat if env.tricks else UNKNOWN)
                assert set(np.flatnonzero(view.on_table[0])) == set(trick.cards if trick else [])
                assert trick is None or view.holder[0] == trick.winner
            env.step(int(rng.choice(env.legal_cards())))


@pytest.mark.parametrize("form", [{"observation": "relative"}, {"observation": "sparse", "history": 5}])
def test_a_player_by_rule_moves_alike_in_every_form(form):
    """Relative rows count seats from the mover; a history holds the present at its end."""
    envs = [hotlap.make_vec("hearts", 64, seed=5, **options) for options in ({"observation": "bytes"}, form)]
    seen = [env.reset() for env in envs]
    for step in range(130):
        moves = [play_by_rules(obs, info["action_mask"], np.random.default_rng(step)) for obs, info in seen]
        np.testing.assert_array_equal(*moves)
        seen = [(result[0], result[-1]) for result in (env.step(moves[0]) for env in envs)]


# -- drawing --


def test_drawings():
    env, *_ = started(direction=1)
    text = plain(env.draw())
    assert "passing left   north chooses card 1 of 3" in text
    assert "♣ A K Q J T 9 8 7 6 5 4 3 2" in text
    env.step(0)
    assert "passes 2♣" in plain(env.draw())
    assert "passes" not in plain(env.draw_for(1))
    env, *_ = started()
    env.step(0)
    text = plain(env.draw_for(1))
    assert "trick 1 of 13   hearts not broken   east to play" in text
    assert "2♣" in text
    assert text.count("13 cards") == 2
    assert text.count("12 cards") == 1
    play_out(env, np.random.default_rng(0))
    text = plain(env.draw())
    assert "north shot the moon" in text
    assert "points  north 0   east 26   south 26   west 26" in text
    assert len(env.draw()) == 1 + 13 + 1 + 1 + 2
