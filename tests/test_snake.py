"""Snake: the rules against hand-worked cases, the kernel against the reference bit for bit, Gymnasium's own checks."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.core.errors import KernelError
from hotlap.envs import engine
from hotlap.envs.rng import Rng
from hotlap.envs.snake import reference
from hotlap.envs.snake.reference import Snake
from tests.lockstep import assert_lockstep

STRAIGHT, LEFT, RIGHT = 0, 1, 2


# -- rules --


def start(body, food, **options):
    env = Snake(**options)
    obs, _ = env.reset(seed=0, options={"board": {"body": body, "food": food}})
    return env, obs


def test_start_is_length_three_at_the_centre_heading_right():
    env = Snake(features="basic")
    obs, _ = env.reset(seed=3)
    assert env.body == [(5, 5), (5, 4), (5, 3)]
    assert obs[8:11].tolist() == [0, 1, 0]
    assert obs[:4].tolist() == [0, 0, 0, 1]  # only the neck, behind, is deadly


def test_rewards_of_a_step_towards_and_away_from_the_food():
    env, _ = start([(5, 5), (5, 4), (5, 3)], (5, 9))
    assert env.step(STRAIGHT)[1] == np.float32(-0.01 + 0.5 / 10)
    assert env.step(LEFT)[1] == np.float32(-0.01 - 0.5 / 10)


def test_food_grows_the_snake_and_pays_ten():
    env, _ = start([(5, 5), (5, 4), (5, 3)], (5, 6))
    _, reward, terminated, truncated, info = env.step(STRAIGHT)
    assert (reward, terminated, truncated, info) == (np.float32(9.99), False, False, {"score": 1})
    assert env.body == [(5, 6), (5, 5), (5, 4), (5, 3)]
    assert env.food not in env.body


def test_the_wall_and_the_vacating_tail_are_deadly():
    env, obs = start([(0, 9), (0, 8), (0, 7)], (5, 5), features="basic")
    assert obs[0] == 1
    _, reward, terminated, _, _ = env.step(STRAIGHT)
    assert (reward, terminated) == (np.float32(-10.01), True)
    square = [(4, 4), (4, 5), (5, 5), (5, 4)]  # heading left; turning left enters the tail's cell, about to be vacated
    env, obs = start(square, (0, 0), features="basic")
    assert obs[:4].tolist() == [0, 1, 0, 1]
    assert env.step(LEFT)[2] is True


def test_timeout_truncates_after_a_thousand_steps():
    env, _ = start([(5, 5), (5, 4), (5, 3)], (0, 0))
    circle = [LEFT, STRAIGHT, LEFT, STRAIGHT]
    for i in range(999):
        assert env.step(circle[i % 4])[2:4] == (False, False)
    _, reward, terminated, truncated, _ = env.step(circle[999 % 4])
    assert (terminated, truncated) == (False, True)
    assert reward in (np.float32(-5.01 + 0.05), np.float32(-5.01 - 0.05))


def test_filling_the_board_ends_the_episode():
    rows = [[(r, c) for c in (range(4) if r % 2 else reversed(range(4)))] for r in range(4)]
    path = [cell for row in rows for cell in row]  # a snake through all 16 cells; its head comes last
    env, _ = start(path[::-1][1:], path[-1], size=4, features="grid")
    body_before = len(env.body)
    heading = reference.DELTA.index((path[-1][0] - path[-2][0], path[-1][1] - path[-2][1]))
    action = {0: STRAIGHT, 3: LEFT, 1: RIGHT}[(heading - env.heading) % 4]
    obs, reward, terminated, _, _ = env.step(action)
    assert (body_before, len(env.body), terminated, reward) == (15, 16, True, np.float32(9.99))
    assert obs[:, :, 2].sum() == 0
    assert obs[:, :, :2].sum() == 16


def test_food_directions_and_grid_planes():
    _, obs = start([(5, 5), (5, 4), (5, 3)], (2, 8), features="basic")
    assert obs[4:8].tolist() == [1, 1, 0, 0]
    _, grid = start([(5, 5), (5, 4), (5, 3)], (2, 8), features="grid")
    assert [tuple(p) for p in np.argwhere(grid)] == [(2, 8, 2), (5, 3, 1), (5, 4, 1), (5, 5, 0)]


def test_flood_features_see_a_pocket():
    # The body walls off the left column: going left (down, as the snake heads left) leads into 5 cells.
    body = [(5, 1), (4, 1), (3, 1), (2, 1), (1, 1), (0, 1)]
    _, obs = start(body, (9, 9), features="flood", size=10)
    assert obs.shape == (14,)
    assert obs[11:].tolist() == [1.0, 1.0, 1.0]  # still open at the bottom
    body = [(9, 1), (8, 1), (7, 1), (6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1), (0, 1)]
    _, obs = start(body, (9, 9), features="flood", size=10)  # heading down at the bottom wall
    assert obs[11:].tolist() == [0.0, np.float32(10 / 90), np.float32(80 / 90)]  # straight, right (west), left (east)


# -- kernel against reference --


def pilot_actions(obs, rng):
    """Mostly towards the food and away from danger, sometimes at random: long snakes, and every kind of death."""
    heading = np.where(obs[:, 8:11].any(1), obs[:, 8:11].argmax(1), 3)
    turns = np.array([0, -1, 1])
    rows = np.arange(len(obs))[:, None]
    towards = obs[rows, 4 + (heading[:, None] + turns) % 4]
    value = towards - 10 * obs[:, :3] + rng.random((len(obs), 3)) * 0.5
    return np.where(rng.random(len(obs)) < 0.03, rng.integers(0, 3, len(obs)), value.argmax(1))


CASES = [  # num_envs, threads, steps, seed, size: over 1,000,000 steps for each feature set
    (1, 1, 30_000, 0, 10),
    (7, 3, 20_000, 11, 10),
    (64, 2, 6_000, 222, 10),
    (256, 1, 1_000, 3_333, 10),
    (256, 4, 500, 44_444, 10),
    (100, 2, 600, 5, 5),
    (30, 1, 200, 6, 17),
]
assert sum(num_envs * steps for num_envs, _, steps, _, _ in CASES) >= 1_000_000
SAMPLE = [(7, 3, 1_500, 11, 10), (64, 2, 150, 222, 10), (100, 2, 100, 5, 5), (30, 1, 100, 6, 17)]


def compare_with_reference(features, num_envs, threads, steps, seed, size):
    """The longest snake that the comparison reached."""
    options = {"num_envs": num_envs, "size": size, "seed": seed}
    kernel = hotlap.make_vec("snake", turbo=True, threads=threads, features=features, **options)
    python = hotlap.make_vec("snake", turbo=False, features=features, **options)
    pilot = hotlap.make_vec("snake", features="basic", **options)  # plays along and chooses
    pilot.reset()

    def steer(mask, rng):
        actions = pilot_actions(pilot.outcome(0)[0].obs, rng)
        pilot.step(actions)
        return actions

    ends = assert_lockstep(kernel, python, steps, seed, choose=steer)
    for env in (kernel, python, pilot):
        env.close()
    return max(end["score"] for end in ends)


@pytest.mark.parametrize("features", reference.FEATURES)
@pytest.mark.parametrize("case", SAMPLE)
def test_kernel_equals_reference(features, case):
    assert compare_with_reference(features, *case) > (3 if case[-1] < 17 else 0)


@pytest.mark.exact
@pytest.mark.parametrize("features", reference.FEATURES)
@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_reference_over_a_million_steps(features, case):
    assert compare_with_reference(features, *case) > (8 if case[-1] < 17 else 1)  # it reached long snakes


@st.composite
def boards(draw):
    """A random self-avoiding snake of any length on a board of any size, and food on a free cell."""
    size = draw(st.integers(4, 14))
    body = [(draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1)))]
    for _ in range(draw(st.integers(1, size * size - 2))):
        row, column = body[-1]
        ways = [(row + dr, column + dc) for dr, dc in reference.DELTA]
        ways = [c for c in ways if 0 <= c[0] < size and 0 <= c[1] < size and c not in body]
        if not ways:
            break
        body.append(draw(st.sampled_from(ways)))
    if len(body) < 2:
        body = [(0, 1), (0, 0)]
    free = [(r, c) for r in range(size) for c in range(size) if (r, c) not in body]
    if not free:
        body.pop()
        free = [(r, c) for r in range(size) for c in range(size) if (r, c) not in body]
    return size, body, draw(st.sampled_from(free))


def flood_by_union(size, body, start):
    """Reachable share, found another way: merge neighbouring free cells until nothing changes."""
    label = {(r, c): (r, c) for r in range(size) for c in range(size) if (r, c) not in body}
    changed = True
    while changed:
        changed = False
        for r, c in label:
            for other in ((r + 1, c), (r, c + 1)):
                if other in label and label[other] != label[r, c]:
                    low, high = sorted((label[other], label[r, c]))
                    label = {cell: low if tag == high else tag for cell, tag in label.items()}
                    changed = True
    if start not in label:
        return 0.0
    return sum(tag == label[start] for tag in label.values()) / (size**2 - len(body))


@settings(max_examples=60)
@given(boards())
def test_flood_fill_on_any_board(board):
    size, body, food = board
    options = {"board": {"body": body, "food": food}}
    kernel = hotlap.make_vec("snake", 2, features="flood", size=size, seed=0)
    obs, _ = kernel.reset(options=options)
    env = Snake(size=size, features="flood")
    expected, _ = env.reset(options=options)
    np.testing.assert_array_equal(obs, np.stack([expected, expected]))
    for column, turn in ((11, 0), (12, 1), (13, -1)):
        dr, dc = reference.DELTA[(env.heading + turn) % 4]
        cell = (body[0][0] + dr, body[0][1] + dc)
        assert expected[column] == np.float32(flood_by_union(size, body, cell))


@pytest.mark.parametrize("size", [4, 8, 16, 32])
def test_both_fill_the_board_and_start_again(size):
    """Up and down the columns, in along the first row: a tour of all cells that a snake of any length can follow."""
    tour = [(0, column) for column in range(size)]
    for column in reversed(range(size)):
        rows = range(1, size) if column % 2 else reversed(range(1, size))
        tour += [(row, column) for row in rows]
    body, food = tour[::-1][1:], tour[-1]  # all but one cell, its head beside the food
    options = {"board": {"body": body, "food": food}}
    turbo, python = (hotlap.make_vec("snake", 1, turbo=t, seed=1, size=size, features="grid") for t in (True, False))
    np.testing.assert_array_equal(turbo.reset(options=options)[0], python.reset(options=options)[0])
    heading = reference.DELTA.index((body[0][0] - body[1][0], body[0][1] - body[1][1]))
    wanted = reference.DELTA.index((food[0] - body[0][0], food[1] - body[0][1]))
    action = {0: 0, 3: 1, 1: 2}[(wanted - heading) % 4]
    for step, actions in enumerate(([action], [0], [1], [2])):
        *a, a_info = turbo.step(actions)
        *b, b_info = python.step(actions)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
        if step == 0:
            assert a[2][0]
            assert a_info["final_obs"][0, :, :, :2].sum() == size**2
            np.testing.assert_array_equal(a_info["final_obs"], b_info["final_obs"])


def test_dropped_environments_leave_no_threads():
    before = len(list(Path("/proc/self/task").iterdir()))
    for _ in range(5):
        env = hotlap.make_vec("snake", 8, threads=4, seed=0)
        env.reset()
        env.step(np.zeros(8, int))
    del env
    gc.collect()
    assert len(list(Path("/proc/self/task").iterdir())) <= before


def test_a_fixed_board_is_followed_to_the_end_by_both():
    board = {"board": {"body": [(5, 5), (5, 4), (5, 3)], "food": (5, 7)}}
    turbo, python = (hotlap.make_vec("snake", 1, turbo=t, seed=9, features="grid") for t in (True, False))
    np.testing.assert_array_equal(turbo.reset(options=board)[0], python.reset(options=board)[0])
    for _ in range(5):  # eats at the second step, dies at the wall in the fifth
        for a, b in zip(turbo.step([0])[:4], python.step([0])[:4], strict=True):
            np.testing.assert_array_equal(a, b)


def test_random_numbers_are_uniform():
    rng = Rng(1)
    counts = np.bincount([rng.below(97) for _ in range(97_000)], minlength=97)
    assert counts.min() > 850
    assert counts.max() < 1150
    assert [Rng(5).below(1000), Rng(6).below(1000)] != [Rng(6).below(1000), Rng(5).below(1000)]


# -- a real Gymnasium environment --


@pytest.mark.parametrize("features", reference.FEATURES)
def test_gymnasium_accepts_the_reference(features):
    check_env(Snake(features=features, render_mode="ansi"))


@pytest.mark.parametrize("turbo", [True, False])
def test_gymnasium_accepts_the_vector_env(turbo):
    env = hotlap.make_vec("snake", 6, turbo=turbo, features="flood", seed=0)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    obs, _ = wrapped.reset(seed=1)
    env.action_space.seed(0)
    seen = 0
    for _ in range(300):
        assert obs in env.observation_space
        obs, reward, terminated, truncated, info = wrapped.step(env.action_space.sample())
        assert reward.shape == terminated.shape == truncated.shape == (6,)
        assert not (terminated & truncated).any()
        if info:
            seen += int(info["_episode"].sum())
            np.testing.assert_allclose(info["episode"]["r"], np.where(info["_episode"], info["final_info"]["return"], 0))
            np.testing.assert_array_equal(info["episode"]["l"], np.where(info["_episode"], info["final_info"]["length"], 0))
    assert seen > 10


def test_same_stream_as_gymnasiums_own_vector_env():
    ours = hotlap.make_vec("snake", 5, features="basic")
    theirs = gymnasium.vector.SyncVectorEnv([lambda: Snake(features="basic")] * 5, autoreset_mode=AutoresetMode.SAME_STEP)
    np.testing.assert_array_equal(ours.reset(seed=7)[0], theirs.reset(seed=7)[0])
    rng = np.random.default_rng(0)
    for _ in range(500):
        actions = rng.integers(0, 3, 5)
        *a, a_info = ours.step(actions)
        *b, b_info = theirs.step(actions)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
        for i in np.flatnonzero(b_info.get("_final_obs", [])):
            np.testing.assert_array_equal(a_info["final_obs"][i], b_info["final_obs"][i])


def test_what_a_step_returned_stays_valid_during_the_next():
    env = hotlap.make_vec("snake", 3, seed=0)
    obs, _ = env.reset()
    kept = obs.copy()
    env.step(np.zeros(3, int))
    np.testing.assert_array_equal(obs, kept)


@pytest.mark.parametrize("turbo", [True, False])
def test_state_can_be_saved_and_restored(turbo):
    env = hotlap.make_vec("snake", 8, turbo=turbo, seed=2)
    env.reset()
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, (60, 8))
    for a in actions[:30]:
        env.step(a)
    saved = env.state()
    first = [tuple(x.copy() for x in env.step(a)[:4]) for a in actions[30:]]
    other = hotlap.make_vec("snake", 8, turbo=turbo, seed=99)
    np.testing.assert_array_equal(other.load_state(saved), saved["obs"])
    for a, expected in zip(actions[30:], first, strict=True):
        for x, y in zip(other.step(a)[:4], expected, strict=True):
            np.testing.assert_array_equal(x, y)
    for options in ({"num_envs": 9}, {"num_envs": 8, "size": 9}, {"num_envs": 8, "turbo": not turbo}):
        with pytest.raises(ValueError, match="do not fit"):
            hotlap.make_vec("snake", **{"turbo": turbo, **options}).load_state(saved)


def test_threads_survive_a_fork():
    env = hotlap.make_vec("snake", 8, threads=2, seed=0)
    env.reset()
    env.step(np.zeros(8, int))
    child = os.fork()
    if child == 0:
        try:
            env.step(np.zeros(8, int))
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# -- bad input --


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "magic"}, "unknown features 'magic'; choose one of basic, flood, grid"),
        ({"num_envs": 0}, "num_envs must be a whole number from 1"),
        ({"num_envs": 2.5}, "num_envs must be a whole number from 1"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"size": 3}, "size must be a whole number from 4 to 32, not 3"),
        ({"colour": "red"}, "unknown option.*colour"),
    ],
)
@pytest.mark.parametrize("turbo", [True, False])
def test_bad_options_raise_one_clear_error(options, message, turbo):
    with pytest.raises(ValueError, match=message):
        hotlap.make_vec("snake", **{"turbo": turbo, **options})


@pytest.mark.parametrize(
    "board",
    [
        {"body": [(5, 5), (5, 3)], "food": (0, 0)},
        {"body": [(5, 5), (5, 4), (5, 5)], "food": (0, 0)},
        {"body": [(5, 5)], "food": (0, 0)},
        {"body": [(0, 0), (0, -1)], "food": (5, 5)},
        {"body": [(5, 5), (5, 4)], "food": (5, 4)},
        {"body": "snake", "food": (5, 4)},
        [1, 2, 3],
    ],
)
@pytest.mark.parametrize("turbo", [True, False])
def test_a_board_that_is_no_snake(board, turbo):
    env = hotlap.make_vec("snake", 2, turbo=turbo, seed=0)
    with pytest.raises(ValueError, match=r"snake: .*board"):
        env.reset(options={"board": board})


@pytest.mark.parametrize("turbo", [True, False])
def test_bad_actions_step_nothing(turbo):
    env = hotlap.make_vec("snake", 3, turbo=turbo, seed=0)
    with pytest.raises(RuntimeError, match="reset"):
        env.step([0, 0, 0])
    env.reset()
    before = env.state()["envs"]
    for actions in ([0, 3, 0], [0, 0, -1]):
        with pytest.raises(ValueError, match="is outside Discrete"):
            env.step(actions)
    for actions in ([0, 0], [1], 0, [0.5, 0.5, 0.5], "abc"):
        with pytest.raises(ValueError, match="actions must be 3 whole numbers"):
            env.step(actions)
    np.testing.assert_array_equal(env.state()["envs"], before)


@pytest.mark.parametrize("seed", [1.5, "a", -1, 2**70, [1, 2], [1, 2, "x"]])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match="seed must be a whole number >= 0, or one for each of the 3 environments"):
        hotlap.make_vec("snake", 3).reset(seed=seed)


def test_unknown_game():
    with pytest.raises(ValueError, match="unknown environment 'snak'; choose one of snake"):
        hotlap.make_vec("snak")


def test_a_machine_without_a_compiler_gets_a_clear_message(tmp_path):
    code = "import hotlap; hotlap.make_vec('snake', 2, turbo=False).reset(); hotlap.make_vec('snake', 2)"
    environ = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    environ.pop("CC", None)
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "no C compiler found" in result.stderr.splitlines()[-1]


def test_a_broken_compiler_and_a_broken_cache_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = Snake()
    with monkeypatch.context() as patch, pytest.raises(KernelError, match=r"could not compile snake/kernel\.h"):
        patch.setattr(Snake, "defines", {"SIZE": 10})
        engine.build(broken)
    library = engine.build(Snake())
    library.write_bytes(b"not a library")
    with pytest.raises(KernelError, match="delete it to build it again"):
        engine.load(library)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(KernelError, match="cannot write the kernel cache"):
        engine.build(Snake())


def test_drawn_for_people():
    env, _ = start([(1, 1), (1, 0)], (0, 3), size=4)
    assert env.render().splitlines() == [". . . o", "# > . .", ". . . .", ". . . ."]
    assert [env.describe_action(action) for action in range(3)] == ["straight", "left", "right"]
