"""Connect Four: the rules against hand-worked cases and other implementations, the kernel against the reference bit for bit."""

import itertools

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hotlap
from hotlap.envs.connect4.bots import BOTS
from hotlap.envs.connect4.reference import ConnectFour
from tests.lockstep import assert_lockstep, random_legal

DRAWN = [int(c) for c in "010101101010232323323232454545545454666666"]  # a full board without a winner


def played(moves):
    env = ConnectFour()
    obs, info = env.reset(options={"moves": moves})
    return env, obs, info


def slow_winner(board):
    """The seat with four in a row on a board [rows, columns] of -1, 0, 1, found by looking at every window of 4 x 4 cells."""
    padded = np.full((9, 10), -1)
    padded[:6, :7] = board
    for seat in (0, 1):
        mine = padded == seat
        for row, column in itertools.product(range(6), range(7)):
            window = mine[row : row + 4, column : column + 4]
            lines = (window[0], window[:, 0], window.diagonal(), window[:, ::-1].diagonal())
            if any(line.all() for line in lines):
                return seat
    return None


def board_of(obs, seat):
    return np.where(obs[..., 0] == 1, seat, np.where(obs[..., 1] == 1, 1 - seat, -1))


# -- rules --


def test_stones_fall_and_seats_take_turns():
    env, obs, info = played([])
    assert info["seat"] == 0
    assert not obs.any()
    obs, reward, terminated, truncated, info = env.step(3)
    assert (reward, terminated, truncated, info["seat"]) == (0, False, False, 1)
    assert np.argwhere(obs).tolist() == [[5, 3, 1]]  # the bottom row; the other's stone, for the seat to move
    obs, *_ = env.step(3)
    assert np.argwhere(obs).tolist() == [[4, 3, 1], [5, 3, 0]]


@pytest.mark.parametrize(
    ("moves", "last"),
    [
        pytest.param([0, 0, 1, 1, 2, 2], 3, id="across"),
        pytest.param([0, 1, 0, 1, 0, 1], 0, id="up"),
        pytest.param([0, 1, 1, 2, 2, 3, 2, 3, 3, 6], 3, id="rising"),
        pytest.param([6, 5, 5, 4, 4, 3, 4, 3, 3, 0], 3, id="falling"),
    ],
)
def test_four_in_a_row_win(moves, last):
    env, _, info = played(moves)
    mover = info["seat"]
    _, reward, terminated, truncated, info = env.step(last)
    assert (reward, terminated, truncated) == (1, True, False)
    assert info["rewards"].tolist() == ([1, -1] if mover == 0 else [-1, 1])
    assert env.metrics() == (0,)
    assert len(env.winning_cells()) == 4


def test_the_second_seat_wins_too():
    env, _, _ = played([0, 3, 0, 3, 0, 3, 1])
    _, reward, terminated, _, info = env.step(3)
    assert (reward, terminated, info["rewards"].tolist()) == (1, True, [-1, 1])


def test_a_full_board_is_a_draw():
    env, _, info = played(DRAWN[:-1])
    assert info["action_mask"].tolist() == [False] * 6 + [True]
    _, reward, terminated, _, info = env.step(6)
    assert (reward, terminated, info["rewards"].tolist(), env.metrics()) == (0, True, [0, 0], (1,))


def test_a_full_column_is_illegal():
    env, _, info = played([2] * 6)
    assert info["action_mask"].tolist() == [True, True, False, True, True, True, True]
    with pytest.raises(ValueError, match="column 3 is full"):
        env.step(2)
    with pytest.raises(ValueError, match="from 0 to 6, not 7"):
        env.step(7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moves": [2] * 7}, "move 7 drops into column 2, which is full"),
        ({"moves": [0, 1] * 4}, "move 7 ends the game"),
        ({"moves": [7]}, "columns from 0 to 6"),
        ({"moves": "012"}, "columns from 0 to 6"),
        ({"moves": 3}, "columns from 0 to 6"),
        ({"board": []}, "unknown reset option 'board'"),
    ],
)
def test_wrong_starts_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ConnectFour().reset(options=options)


def positions(plies):
    """How many different positions there are after each number of moves, if a won game does not go on."""
    env, counts, here = ConnectFour(), [], {()}
    for _ in range(plies + 1):
        counts.append(len(here))
        following = set()
        for stones in here:
            env.stones = dict(stones)
            if env.winning_cells():
                continue
            for action in np.flatnonzero(env.mask()):
                env.stones = dict(stones)
                env._drop(int(action))
                following.add(tuple(sorted(env.stones.items())))
        here = following
    return counts


KNOWN_POSITIONS = [1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275]  # OEIS A212693


def test_number_of_positions():
    assert positions(4) == KNOWN_POSITIONS[:5]


@pytest.mark.exact
def test_number_of_positions_exactly():
    assert positions(7) == KNOWN_POSITIONS[:8]


def random_games(seed, games):
    """Every position of games played at random: environment, observation, result of the step that led there."""
    rng = np.random.default_rng(seed)
    for _ in range(games):
        env = ConnectFour()
        _, info = env.reset()
        over = False
        while not over:
            mover, action = info["seat"], int(rng.choice(np.flatnonzero(info["action_mask"])))
            obs, reward, over, _, info = env.step(action)
            yield env, obs, mover, action, reward, over, info


def compare_with_slow_winner(games):
    ends = {0: 0, 1: 0, None: 0}
    for env, obs, mover, _, reward, over, info in random_games(0, games):
        board = board_of(obs, info["seat"])
        winner = slow_winner(board)
        assert (winner == mover) == (reward == 1)
        assert over == (winner is not None or not (board < 0).any())
        ends[winner] += over
        assert env.metrics() == (float(over and winner is None),)
    return ends


def test_winners_by_another_method():
    assert min(list(compare_with_slow_winner(60).values())[:2]) > 10


@pytest.mark.exact
def test_winners_by_another_method_at_length():
    assert min(list(compare_with_slow_winner(600).values())[:2]) > 200


def compare_with_pettingzoo(games):
    from hotlap.envs import pettingzoo

    theirs = pettingzoo.maker("pettingzoo/connect_four_v3")()
    over = True
    for _, obs, mover, action, reward, ended, info in random_games(1, games):
        if over:
            _, their_info = theirs.reset(seed=0)
        assert their_info["seat"] == mover
        their_obs, their_reward, over, _, their_info = theirs.step(action)
        assert (reward, ended) == (their_reward, over)
        np.testing.assert_array_equal(info["rewards"], their_info["rewards"])
        if not over:
            np.testing.assert_array_equal(obs, their_obs)
            np.testing.assert_array_equal(info["action_mask"], their_info["action_mask"])
    assert over


def test_same_games_as_pettingzoo():
    pytest.importorskip("pettingzoo.classic.connect_four_v3")
    compare_with_pettingzoo(10)


@pytest.mark.exact
def test_same_games_as_pettingzoo_at_length():
    pytest.importorskip("pettingzoo.classic.connect_four_v3")
    compare_with_pettingzoo(100)


def test_gymnasium_accepts_the_reference():
    check_env(ConnectFour(render_mode="ansi"), skip_render_check=True)


def test_states_are_saved_and_restored():
    env, _, _ = played([3, 3, 2, 6])
    twin = ConnectFour()
    twin.unpack(env.pack())
    assert (twin.stones, twin.last, twin.seat) == (env.stones, env.last, env.seat)
    np.testing.assert_array_equal(twin.step(4)[0], env.step(4)[0])


# -- for people --


def test_drawn_and_played_by_people():
    env, _, _ = played([3, 3, 2, 6, 1])
    lines = env.render().splitlines()
    assert lines[:5] == ["1 2 3 4 5 6 7"] + [". . . . . . ."] * 4
    assert lines[5:] == [". . . O . . .", ". X X X . . O", "O to move"]
    env.step(0)
    env.step(4)
    assert env.render().splitlines()[-1] == "X wins"
    assert sum("reverse" in style for line in env.draw() for _, style in line) == 4
    assert [env.parse_action(" 4 "), env.describe_action(3)] == [3, "column 4"]
    for text in ("0", "8", "", "four", "3.0"):
        with pytest.raises(ValueError, match="type a column from 1 to 7"):
            env.parse_action(text)
    with pytest.raises(ValueError, match="column 3 is full"):
        played([2] * 6)[0].parse_action("3")


# -- bots --


def slow_lookahead(env):
    """Columns that a player who looks one move ahead would choose from."""
    legal = [int(action) for action in np.flatnonzero(env.mask())]

    def wins(seat):
        winning = []
        for action in legal:
            child = ConnectFour()
            child.stones = dict(env.stones)
            row = max(r for r in range(6) if (r, action) not in child.stones)
            child.stones[row, action] = seat
            if slow_winner(np.array([[child.stones.get((r, c), -1) for c in range(7)] for r in range(6)])) == seat:
                winning.append(action)
        return winning

    return wins(env.seat) or wins(1 - env.seat) or legal


def test_lookahead_wins_blocks_or_plays_at_random():
    rng = np.random.default_rng(0)
    boards = [(env.pack(), obs, info["action_mask"]) for env, obs, *_, over, info in random_games(2, 12) if not over][::3]
    packed, obs, mask = (np.stack(column) for column in zip(*boards, strict=True))
    chosen = [BOTS["lookahead"](obs, mask, rng) for _ in range(40)]
    forced = 0
    for i, state in enumerate(packed):
        env = ConnectFour()
        env.unpack(state)
        allowed = set(slow_lookahead(env))
        seen = {int(actions[i]) for actions in chosen}
        assert seen <= allowed
        assert len(seen) > 1 or len(allowed) == 1
        forced += len(allowed) == 1
    assert 10 < forced < len(packed) - 10


# -- kernel against reference --


def compare_with_reference(num_envs, threads, steps):
    """How many games ended, and how many of those were draws."""
    kernel = hotlap.make_vec("connect4", num_envs, threads=threads, seed=0)
    python = hotlap.make_vec("connect4", num_envs, turbo=False, seed=0)
    ends = assert_lockstep(kernel, python, steps, seed=num_envs)
    return len(ends), sum(end["draw"] for end in ends)


def test_kernel_equals_reference():
    games, _ = compare_with_reference(num_envs=13, threads=2, steps=250)
    assert games > 100


@pytest.mark.exact
def test_kernel_equals_reference_at_length():
    games, draws = compare_with_reference(num_envs=50, threads=2, steps=1000)
    assert games > 1500
    assert draws > 0


def test_a_draw_and_a_win_in_both():
    starts = [{"moves": DRAWN[:-1]}, {"moves": [0, 0, 1, 1, 2, 2]}, None, {"moves": []}]
    kernel, python = (hotlap.make_vec("connect4", 4, turbo=turbo, seed=0) for turbo in (True, False))
    for env in (kernel, python):
        _, info = env.reset(options={"per_env": starts})
        assert info["seat"].tolist() == [1, 0, 0, 0]
        _, reward, terminated, _, info = env.step([6, 3, 0, 0])
        assert reward.tolist() == [0, 1, 0, 0]
        assert terminated.tolist() == [True, True, False, False]
        assert info["rewards"].tolist() == [[0, 0], [1, -1], [0, 0], [0, 0]]
        assert info["final_info"]["draw"][:2].tolist() == [1, 0]
        assert info["final_info"]["returns"][:2].tolist() == [[0, 0], [1, -1]]
        assert info["seat"].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("turbo", [True, False])
def test_illegal_moves_and_starts_are_refused(turbo):
    env = hotlap.make_vec("connect4", 2, turbo=turbo, seed=0)
    env.reset(options={"per_env": [None, {"moves": [2] * 6}]})
    with pytest.raises(ValueError, match="action 2 of environment 1 is illegal"):
        env.step([2, 2])
    with pytest.raises(ValueError, match="action 7 of environment 0 is outside"):
        env.step([7, 0])
    with pytest.raises(ValueError, match="moves must be a list of columns"):
        env.reset(options={"moves": [9]})


@pytest.mark.parametrize("turbo", [True, False])
def test_vector_states_are_saved_and_restored(turbo):
    left, right = (hotlap.make_vec("connect4", 5, turbo=turbo, seed=seed) for seed in (0, 9))
    rng = np.random.default_rng(0)
    _, info = left.reset()
    for _ in range(20):
        _, _, _, _, info = left.step(random_legal(info["action_mask"], rng))
    right.reset()
    right.load_state(left.state())
    assert_lockstep(left, right, 40, seed=1, reset=False)
