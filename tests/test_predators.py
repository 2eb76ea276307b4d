"""Predators: the rules against hand-worked cases, the kernel against the reference bit for bit, maps of all kinds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.envs.predators import reference
from hotlap.envs.predators.maps import DEFAULT_MAP, read_map
from hotlap.envs.predators.reference import Predators
from tests.lockstep import assert_lockstep, random_legal

STAY, UP, RIGHT, DOWN, LEFT = range(5)
SMALL = "....\n.#..\n....\n...."


def start(predators, prey, map=SMALL):
    """An environment with two predators, and prey that the test moves by hand."""
    env = Predators(agents=2, prey=len(prey), map=map)
    env.reset(seed=0, options={"predators": predators, "prey": prey})
    env._move_prey = lambda i: None
    return env


def step(env, *actions):
    """Rewards, terminated and truncated of those that acted, and whether the episode is over."""
    results, over = env.step(actions)
    return {agent: (reward, terminated, truncated) for agent, _, reward, terminated, truncated, _ in results}, over


# -- rules --


def test_predators_move_and_are_masked_by_walls():
    env = start([(0, 1), (3, 3)], [(2, 0)])
    assert env.mask(0).tolist() == [True, False, True, False, True]
    assert env.mask(1).tolist() == [True, True, False, False, True]
    assert step(env, LEFT, UP) == ({0: (0, False, False), 1: (0, False, False)}, False)
    assert env.predators == [(0, 0), (2, 3)]
    with pytest.raises(ValueError, match="agent 0 cannot go up: there is a wall"):
        env.step([UP, STAY])
    with pytest.raises(ValueError, match="from 0 to 4, not 5"):
        env.step([5, STAY])


def test_a_catch_pays_and_feeds_and_the_prey_returns():
    env = start([(0, 0), (3, 3)], [(0, 1), (3, 0)])
    assert step(env, RIGHT, STAY)[0] == {0: (1, False, False), 1: (0, False, False)}
    assert env.energy == [30 - 1 + 15, 29]
    assert (env.metrics(0), env.metrics(1)) == ((1,), (0,))
    assert env.prey[1] == (3, 0)
    assert env.prey[0] not in [(0, 1), (1, 1), (3, 0), (3, 3)]
    env.energy[0], env.prey[0] = 40, (0, 2)
    step(env, RIGHT, STAY)
    assert env.energy[0] == 49  # not 54


def test_moves_are_resolved_in_order():
    env = start([(0, 0), (0, 1)], [(3, 3)])
    step(env, RIGHT, RIGHT)  # the first is blocked by the second, which then moves away
    assert env.predators == [(0, 0), (0, 2)]
    env = start([(0, 1), (0, 0)], [(3, 3)])
    step(env, RIGHT, RIGHT)  # the second enters the cell that the first has left
    assert env.predators == [(0, 2), (0, 1)]
    env = start([(0, 0), (0, 2)], [(0, 1)])
    rewards, _ = step(env, RIGHT, LEFT)  # the first catches, the second is blocked
    assert [rewards[0][0], rewards[1][0]] == [1, 0]
    assert env.predators == [(0, 1), (0, 2)]


def test_the_starved_leave_and_wait_for_the_others():
    env = start([(0, 0), (0, 1)], [(3, 3)])
    env.energy = [1, 30]
    results, over = env.step([STAY, LEFT])
    assert not over
    assert [result[2:5] for result in results] == [(-1, True, False), (0, False, False)]
    assert env.predators[1] == (0, 0)  # the cell is free at once
    assert results[0][1][3, 3].tolist() == [0, 1, 0, 0]  # the last view of the first: the second in its place, no energy
    env.energy[1] = 1
    results, over = env.step([STAY, STAY])
    assert over
    assert [result[0] for result in results] == [1]


def test_a_catch_in_the_last_moment_saves():
    env = start([(0, 0), (3, 3)], [(0, 1)])
    env.energy[0] = 1
    assert step(env, RIGHT, STAY)[0][0] == (1, False, False)
    assert env.energy[0] == 15


def test_time_truncates_those_alive():
    env = start([(0, 0), (3, 3)], [(2, 0)])
    env.steps, env.energy = 199, [1, 2]
    assert step(env, STAY, STAY) == ({0: (-1, True, False), 1: (0, False, True)}, True)


def test_prey_go_to_free_cells_only():
    env = Predators(agents=2, prey=1, map="...\n.#.\n...")
    env.reset(seed=3, options={"predators": [(0, 1), (2, 2)], "prey": [(0, 0)]})
    seen = set()
    for _ in range(60):
        env.prey[0] = (0, 0)
        env._move_prey(0)
        seen.add(env.prey[0])
    assert seen == {(0, 0), (1, 0)}  # to the right is a predator, all else is wall


def test_the_observation():
    env = start([(0, 0), (1, 2)], [(0, 3)])
    obs = env.observe(0)
    assert obs[..., 0].sum() == 49 - 16 + 1  # outside, and the one wall
    assert obs[4, 4, 0] == 1
    assert np.argwhere(obs[..., 1]).tolist() == [[3, 3], [4, 5]]
    assert np.argwhere(obs[..., 2]).tolist() == [[3, 6]]
    assert obs[..., 3].ravel().tolist() == [1] * 30 + [0] * 19
    assert env.observation_space.contains(obs)


def test_states_are_saved_and_restored():
    env, twin = Predators(), Predators()
    rng = np.random.default_rng(0)
    env.reset(seed=1, options={"map": DEFAULT_MAP.replace("##", ".#")})

    def play(env, rng):
        masks = np.stack([env.mask(agent) for agent in env.agents])
        return env.step(random_legal(masks, rng))

    for _ in range(40):
        play(env, rng)
    twin.unpack(env.pack())
    for _ in range(30):
        state = rng.bit_generator.state
        left = play(env, rng)
        rng.bit_generator.state = state
        assert str(play(twin, rng)) == str(left)
    np.testing.assert_array_equal(twin.pack(), env.pack())


def test_drawn_for_people():
    env = start([(0, 0), (2, 1)], [(3, 3)])
    env.energy[1] = 0
    assert env.render().splitlines() == [
        "A . . .",
        ". # . .",
        ". . . .",
        ". . . o",
        "A  energy 30  caught 0",
        "B  starved    caught 0",
    ]
    assert [env.describe_action(action) for action in range(5)] == ["stay", "up", "right", "down", "left"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": 1}, "agents must be a whole number from 2 to 16"),
        ({"prey": 0}, "prey must be a whole number from 1 to 64"),
        ({"map": "..x.."}, "lines of # .wall. and . .floor."),
        ({"map": ""}, "lines of #"),
        ({"map": "...\n.."}, "equally long"),
        ({"map": "." * 65}, "at most 64"),
        ({"map": "...\n..."}, "6 cells of floor for 10 predators and prey"),
        ({"map": 3}, "a map is text"),
        ({"size": 3}, "unknown option"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        hotlap.make_vec("predators", 1, **options)


FOUR, SIX = [(0, 0), (0, 1), (0, 2), (0, 3)], [(3, 0), (3, 1), (3, 2), (3, 5), (3, 6), (3, 7)]


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"predators": FOUR}, "both predators and prey"),
        ({"predators": FOUR, "prey": SIX[:5]}, "prey must be 6 cells, not 5"),
        ({"predators": FOUR, "prey": [*SIX[:5], (0, 0)]}, r"\(0, 0\) must be a cell of floor that only one"),
        ({"predators": FOUR, "prey": [*SIX[:5], (1, 1)]}, r"\(1, 1\) must be a cell of floor"),
        ({"predators": FOUR, "prey": [*SIX[:5], (0, 12)]}, r"\(0, 12\) must be a cell"),
        ({"predators": 3, "prey": SIX}, "predators must be a list of"),
        ({"map": SMALL}, "this map is 4 x 4, not 12 x 12"),
        ({"walls": SMALL}, "unknown reset option 'walls'"),
    ],
)
def test_wrong_starts_are_refused(turbo, options, message):
    env = hotlap.make_vec("predators", 2, turbo=turbo, seed=0)
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)


# -- kernel against reference --


def compare_with_reference(num_envs, threads, steps, seed, starts=None, **options):
    """What the episodes that ended had in `final_info`."""
    kernel = hotlap.make_vec("predators", num_envs, threads=threads, seed=seed, **options)
    python = hotlap.make_vec("predators", num_envs, turbo=False, seed=seed, **options)
    return assert_lockstep(kernel, python, steps, seed, starts)


CROWDED = "....\n####"  # nothing is free but what a predator has just left
CASES = [
    (3, 2, 250, {}),
    (1, 1, 210, {"agents": 16, "prey": 30}),
    (5, 1, 120, {"agents": 2, "prey": 1, "map": "....#..\n.......\n..#...."}),
    (1, 1, 100, {"agents": 3, "prey": 4, "map": "." * 64 + "\n" + "#." * 32}),
    (2, 2, 210, {"agents": 2, "prey": 2, "map": CROWDED}),
]


@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_reference(case):
    num_envs, threads, steps, options = case
    assert compare_with_reference(num_envs, threads, steps, 5, **options)


@pytest.mark.exact
@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_reference_at_length(case):
    num_envs, threads, steps, options = case
    ends = compare_with_reference(num_envs * 2, threads, steps * 6, 7, **options)
    assert max(end["caught"] for end in ends) > 1
    assert options.get("map") == CROWDED or min(end["length"] for end in ends) == 30  # some starve without a catch


@st.composite
def maps(draw):
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    cells = draw(st.lists(st.sampled_from("...#"), min_size=rows * columns, max_size=rows * columns))
    text = "\n".join("".join(cells[row * columns : (row + 1) * columns]) for row in range(rows))
    floor = [divmod(i, columns) for i, cell in enumerate(cells) if cell == "."]
    return text, draw(st.permutations(floor))


# Every new map size is a new kernel, so the sizes are few and the maps many: a map goes into a corner of a fixed one.
def in_a_corner(text, side):
    lines = text.splitlines()
    return "\n".join([line.ljust(side, "#") for line in lines] + ["#" * side] * (side - len(lines)))


@settings(max_examples=30)
@given(st.lists(maps().filter(lambda found: len(found[1]) >= 5), min_size=3, max_size=3), st.booleans(), st.integers(0, 2**32))
def test_any_maps_one_for_each_environment(found, fixed, seed):
    starts = []
    for text, floor in found:
        cells = {"predators": floor[:2], "prey": floor[2:5]} if fixed else {}
        starts.append({"map": in_a_corner(text, 12), **cells})
    compare_with_reference(3, 1, 8, seed, {"per_env": starts}, agents=2, prey=3)


def test_a_map_stays_until_other_options_come():
    corner = in_a_corner("....\n....\n....", 12)
    for turbo in (True, False):
        env = hotlap.make_vec("predators", 2, turbo=turbo, seed=0)
        env.reset(options={"per_env": [{"map": corner}, None]})
        rng = np.random.default_rng(0)
        mask = env.outcome(0)[0].mask
        for _ in range(210):  # over the end of an episode
            env.step(random_legal(mask, rng))
            mask = env.outcome(0)[0].mask
        env.reset()
        walls = env.outcome(0)[0].obs.reshape(2, 4, 7, 7, 4)[..., 0].sum((1, 2, 3))
        assert walls[0] >= 4 * (49 - 12) > walls[1]  # 12 cells of floor, or many
        saved = env.state()
        twin = hotlap.make_vec("predators", 2, turbo=turbo, seed=5)
        twin.reset()
        twin.load_state(saved)
        assert_lockstep(env, twin, 60, seed=2, reset=False)
        env.reset(options={"predators": FOUR, "prey": SIX})
        np.testing.assert_array_equal(*(env.outcome(0)[0].obs.reshape(2, -1)))


def test_the_number_of_threads_changes_nothing():
    one, three = (hotlap.make_vec("predators", 50, threads=threads, seed=4) for threads in (1, 3))
    ends = assert_lockstep(one, three, 450, seed=0)
    assert len(ends) > 200


def test_waiting_agents_may_choose_anything():
    ends = []
    for turbo in (True, False):
        env = hotlap.make_vec("predators", 1, turbo=turbo, seed=0, agents=2, prey=1, map="......\n......")
        env.reset()
        for _ in range(200):
            out = env.outcome(0)[0]
            actions = np.where(out.active, STAY, DOWN)  # which is into a wall for some
            _, _, terminated, _, info = env.step(actions)
            assert (env.outcome(0)[0].reward[~out.active] == 0).all()
            if terminated.any():
                ends.append((terminated.tolist(), info["final_info"]["length"].tolist(), info["active"].tolist()))
    assert ends[: len(ends) // 2] == ends[len(ends) // 2 :]
    with pytest.raises(ValueError, match="agent 1 of environment 0 is illegal"):
        env.reset(options={"predators": [(0, 0), (1, 1)], "prey": [(0, 5)]})
        env.step([STAY, DOWN])


def test_the_built_in_map_is_connected():
    floor = {(int(row), int(column)) for row, column in np.argwhere(read_map(DEFAULT_MAP, 10) == 0)}
    reached, edge = set(), [min(floor)]
    while edge:
        cell = edge.pop()
        if cell in floor and cell not in reached:
            reached.add(cell)
            edge += [(cell[0] + down, cell[1] + right) for down, right in reference.DELTA]
    assert reached == floor
