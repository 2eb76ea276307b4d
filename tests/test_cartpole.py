"""CartPole: the kernel against the reference bit for bit, the rules against Gymnasium's."""

import gymnasium
import numpy as np
import pytest

import hotlap


def test_the_kernel_equals_the_reference():
    fast, slow = (hotlap.make_vec("cartpole", 16, turbo=turbo, seed=3) for turbo in (True, False))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(fast.reset(seed=3)[0], slow.reset(seed=3)[0])
    ended = 0
    for _ in range(3_000):
        action = rng.integers(0, 2, 16)
        one, other = fast.step(action), slow.step(action)
        for a, b in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        if one[4]:
            rows = one[4]["_final_obs"]
            ended += rows.sum()
            np.testing.assert_array_equal(one[4]["final_obs"][rows], other[4]["final_obs"][rows])
            for name in ("return", "length"):
                np.testing.assert_array_equal(one[4]["final_info"][name][rows], other[4]["final_info"][name][rows])
    assert ended > 500


def clumsy(state, rng):
    """Balance, but not always, so that some episodes are short and some reach the end of time."""
    return int(state[2] + 0.5 * state[3] > 0) if rng.random() < 0.97 else int(rng.integers(2))


def test_in_lock_step_with_gymnasium():
    """Our sine and the C library's differ in the last bit at times, which an unstable pole magnifies 50 times each second: so
    ours takes theirs' state over every 25 steps, half a second, and is within a few roundings of float32 of it in between."""
    rng = np.random.default_rng(0)
    theirs = gymnasium.make("CartPole-v1").unwrapped
    ours = hotlap.make_vec("cartpole", 1, seed=0)
    for _ in range(40):
        theirs.reset(seed=int(rng.integers(1 << 30)))
        for number in range(500):
            if number % 25 == 0:
                ours.reset(options={"state": theirs.state})
            action = clumsy(theirs.state, rng)
            obs, reward, terminated, _, _ = theirs.step(action)
            our_obs, our_reward, our_terminated, _, info = ours.step(np.array([action]))
            assert (reward, terminated) == (our_reward[0], our_terminated[0])
            np.testing.assert_allclose(info["final_obs"][0] if info else our_obs[0], obs, rtol=3e-7, atol=1e-12)
            if terminated:
                break


def test_an_episode_is_cut_after_500_steps():
    env = hotlap.make_vec("cartpole", 1, seed=0)
    obs, _ = env.reset()
    for _ in range(500):
        obs, _, terminated, truncated, info = env.step([int(obs[0, 2] + 0.5 * obs[0, 3] > 0)])
        assert not terminated
    assert truncated[0] and info["final_info"]["length"][0] == info["final_info"]["return"][0] == 500


def test_bad_starts():
    env = hotlap.make_vec("cartpole", 2)
    for state in ((1, 2), "abcd", (0, 0, 0, float("nan"))):
        with pytest.raises(ValueError, match="four numbers"):
            env.reset(options={"state": state})
