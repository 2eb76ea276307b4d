"""Two vector environments of one game that must do the same, bit for bit."""

import numpy as np

NOW = ("obs", "mask", "seat", "active")
STEPPED = ("reward", "terminated", "truncated", "rewards")
ENDED = ("final_obs", "final_seat", "episode_return", "episode_length", "episode_metrics", "episode_returns")


def random_legal(mask, rng):
    """A random legal action for each row of a mask [rows, choices]."""
    return ((1 - rng.random(mask.shape)) * mask).argmax(1)


def assert_lockstep(left, right, steps, seed, options=None, reset=True, choose=random_legal):
    """Step both with the same random legal actions and compare every array. Gives the `final_info` of each episode."""
    rng = np.random.default_rng(seed)
    if reset:
        for env in (left, right):
            env.reset(options=options)
    ends = []
    mine, other = (env.outcome(0)[0] for env in (left, right))
    for name in NOW:
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), name)
    for _ in range(steps):
        actions = choose(mine.mask, rng)
        for env in (left, right):
            env.step(actions)
        (mine, count), (other, other_count) = left.outcome(0), right.outcome(0)
        assert count == other_count
        for name in NOW + STEPPED:
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), name)
        over = np.flatnonzero(mine.terminated | mine.truncated)
        for name in ENDED:
            a, b = getattr(mine, name), getattr(other, name)
            if len(a):  # a game without seats has no returns per seat
                np.testing.assert_array_equal(a[over], b[over], name)
        columns = left.final_info(mine)
        ends += [{name: values[row].tolist() for name, values in columns.items()} for row in over]
    return ends
