"""CAGE Challenge 2 against CybORG 2.1: every recorded step, and the distribution of returns."""

import numpy as np
import pytest

import hotlap
from tests.cage2_blue import POLICIES
from tests.cage2_recordings import FILES, STEPS, assert_as_recorded, load

REDS = ("sleep", "b_line", "meander")  # by `red_agent` of the recordings
LENGTHS = (30, 50, 100)
SAMPLE = {"b_line": [3, 40, 60, 80, 111], "meander": [5, 40, 70, 85, 104, 110], "sleep": [6]}  # all policies
MARGIN, MARGIN_OF_FEW = 0.3, 0.5  # standard deviations of the recorded returns; where there are 60 of them only
ONE_SIDED = 1.645  # 95%


@pytest.mark.parametrize("red", FILES)
def test_the_kernel_replays_every_recorded_step(red):
    assert_as_recorded(red, range(len(load(FILES[red])["seed"])), turbo=True)


@pytest.mark.parametrize("red", FILES)
def test_the_reference_replays_a_sample(red):
    assert_as_recorded(red, SAMPLE[red], turbo=False)


@pytest.mark.exact
@pytest.mark.parametrize("red", FILES)
def test_the_reference_replays_every_recorded_step(red):
    assert_as_recorded(red, range(len(load(FILES[red])["seed"])), turbo=False)


def test_the_recordings_reach_the_rare_branches():
    """Or the comparison would say nothing about them."""
    b_line, meander = load("bline"), load("meander")
    assert ((b_line["red_stage"][:, :-1] == 11) & (b_line["red_stage"][:, 1:] == 1)).any()  # its jump
    for recording in (b_line, meander):
        stopped = recording["ot"][:, 1:] & 1 == 0
        harmless = (recording["red_action"] == 5) & (recording["red_success"] == 1) & ~stopped
        assert harmless.any()  # an Impact after Op_Server0 was restored
        assert (recording["decoys"][..., 7] > 3).any()
    assert ((meander["red_action"] == 1) & (meander["red_success"] == 0)).any()  # a sweep of a closed subnet


def returns(blue, red, episodes, seed):
    """Returns after 30, 50 and 100 steps, [episodes, 3]."""
    env = hotlap.make_vec("cage2", episodes, seed=seed, red=REDS[red])
    policy = POLICIES[blue](episodes, seed)
    table, _ = env.reset()
    rewards = np.zeros((STEPS, episodes))
    for step in range(STEPS):
        table, rewards[step], *_ = env.step(policy.act(table))
    return np.stack([rewards[:length].sum(0) for length in LENGTHS], 1)


def assert_equivalent(ours, theirs, margin):
    """Two one-sided tests: the 90% interval of the difference of means lies within the margin (or both are constant)."""
    spread = theirs.std(ddof=1)
    if spread < 1e-9:
        np.testing.assert_allclose(ours, theirs[0], atol=1e-4)
        return
    error = np.sqrt(ours.var(ddof=1) / len(ours) + spread**2 / len(theirs))
    difference = ours.mean() - theirs.mean()
    assert abs(difference) + ONE_SIDED * error < margin * spread, (ours.mean(), theirs.mean(), error)
    assert 0.7 < ours.std(ddof=1) / spread < 1.4


def compare_returns(blue, red, episodes):
    table = load("returns")
    rows = (table["blue_policy"] == blue) & (table["red_agent"] == red)
    recorded = np.stack([table[f"return_{length}"][rows] for length in LENGTHS], 1)
    margin = MARGIN if len(recorded) >= 200 else MARGIN_OF_FEW
    ours = returns(blue, red, episodes, seed=100 * blue + red)
    for column in range(len(LENGTHS)):
        assert_equivalent(ours[:, column], recorded[:, column], margin)


@pytest.mark.parametrize("red", range(3))
def test_returns_of_a_sleeping_blue(red):
    compare_returns(0, red, 4_000)


@pytest.mark.parametrize("red", range(3))
def test_returns_of_a_uniform_blue(red):
    compare_returns(1, red, 4_000)


PAIRS = sorted(
    {(int(b), int(r)) for b, r in zip(*(load("returns")[name] for name in ("blue_policy", "red_agent")), strict=True)}
)


@pytest.mark.exact
@pytest.mark.parametrize(("blue", "red"), PAIRS)
def test_returns_of_every_policy(blue, red):
    compare_returns(blue, red, 2_000 if POLICIES[blue].__name__ in ("Defender", "Weighted") else 20_000)


# -- the trace of SYSTEMS.md --

TRACE = [0] * 3 + [-0.1] * 3 + [-1.1] * 4 + [-2.1] * 3 + [-3.1] + [-13.1] * 86


def test_b_line_against_a_sleeping_blue_step_by_step():
    """CybORG's rewards with seed 0: every exploit gave a user's session that had to be escalated."""
    env = hotlap.make_vec("cage2", 4_000, seed=0, red="b_line")
    env.reset()
    rewards = np.stack([env.step(np.zeros(4_000, np.int64))[1].copy() for _ in range(STEPS)], 1)
    same = (rewards == np.array(TRACE, np.float32)).all(1)
    assert same.mean() > 0.05
    # Exploits that fail delay, those that give root at once bring costs forward; nothing else differs.
    np.testing.assert_array_equal(rewards[:, -1], np.float32(-13.1))
    assert (np.diff(rewards, axis=1) <= 0).all()
    assert set(np.round(rewards * 10).astype(int).ravel()) == {0, -1, -11, -21, -31, -131}
