"""MettaGrid: the rules against hand-worked cases, invariants, and the kernel against the reference bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.envs.mettagrid.generate import GENERATORS
from hotlap.envs.mettagrid.objects import ACTIONS, FEATURE_MAX, RECIPES, Act, Item, Kind
from hotlap.envs.mettagrid.reference import MettaGrid
from hotlap.envs.mettagrid.tokens import decode, to_box
from hotlap.envs.mettagrid.world import Agent
from tests.lockstep import assert_lockstep
from tests.mettagrid_maps import CROWDED, SIZE, WORKSHOP, crowded_maps, eager, expected_window

UP, RIGHT, DOWN, LEFT = range(Act.FACE, Act.FACE + 4)
ORE, BATTERY, HEART, LASER, ARMOR = Item


def arena(*lines, agents=("agent 1 1 right",), **options):
    """An arena on a map that is framed with walls."""
    text = "\n".join(["#" * (len(lines[0]) + 2), *(f"#{line}#" for line in lines), "#" * (len(lines[0]) + 2), *agents])
    env = MettaGrid(**{"task": "arena", "map": text, **options})
    env.reset(seed=0)
    return env


def step(env, *actions):
    """Each agent's reward."""
    results, _ = env.step(list(actions)) if len(actions) > 1 else ([(0, *env.step(actions[0]))], False)
    return [result[2] for result in results]


def legal(env, agent=0):
    return {ACTIONS[action] for action in np.flatnonzero(env.mask(agent))}


# -- rules --


def test_moves_turns_and_colours():
    env = arena("..", "#.")
    who = env.world.agents[0]
    assert legal(env) == {
        "noop",
        "forward",
        "face up",
        "face down",
        "face left",
        "colour green",
        "colour blue",
        "colour yellow",
    }
    step(env, Act.FORWARD)
    assert who.cell == (1, 2) and "forward" not in legal(env) and "backward" in legal(env)
    step(env, DOWN)
    step(env, Act.FORWARD)
    step(env, Act.BACKWARD)
    assert (who.cell, who.facing) == ((1, 2), 2)
    step(env, Act.COLOUR + 3)
    assert who.colour == 3 and "colour yellow" not in legal(env)
    with pytest.raises(ValueError, match="agent 0 cannot do face down now"):
        env.step(DOWN)
    with pytest.raises(ValueError, match="from 0 to 14, not 15"):
        env.step(15)


def test_who_comes_first_changes_with_every_step():
    env = arena("...", agents=("agent 1 1 right", "agent 1 3 left"))
    first, second = env.world.agents
    step(env, Act.FORWARD, Act.FORWARD)  # both want the cell between them
    assert (first.cell, second.cell) == ((1, 2), (1, 3))
    step(env, Act.BACKWARD, Act.NOOP)
    env.world.steps = 3
    step(env, Act.FORWARD, Act.FORWARD)
    assert (first.cell, second.cell) == ((1, 1), (1, 2))
    assert [who.last_action for who in env.world.agents] == [Act.FORWARD + 1] * 2  # also of what came too late


def test_from_ore_to_a_heart():
    env = arena("@m", agents=(), rewards={"ore": 0.5})
    env.world.agents[0].facing = 1
    rewards = [step(env, Act.GET if env.mask(0)[Act.GET] else Act.NOOP)[0] for _ in range(31)]
    assert [number for number, reward in enumerate(rewards) if reward] == [11, 21]  # it began in step 0
    assert rewards[11] == 0.5 and env.world.agents[0].items == [2, 0, 0, 0, 0]

    env = arena("@_", agents=())
    who, altar = env.world.agents[0], env.world.altars[0]
    who.facing, who.items = 1, [1, 8, 0, 0, 0]
    assert "put" in legal(env) and "get" not in legal(env)
    assert step(env, Act.PUT) == [0]
    assert who.items == [1, 2, 0, 0, 0] and altar.items == [0, 3, 0, 0, 0] and altar.working == 10  # three in use
    for _ in range(9):
        step(env, Act.NOOP)
    assert altar.working == 1
    step(env, Act.PUT)
    assert altar.items == [0, 2, 1, 0, 0] and altar.working == 10  # 3 + 2, and three of them in use again
    assert step(env, Act.GET) == [1] and who.items == [1, 0, 1, 0, 0] and env.metrics(0) == (1, 0, 0)


def test_a_full_converter_stops():
    env = arena("@m", agents=())
    for _ in range(100):
        step(env, Act.NOOP)
    (mine,) = env.world.converters
    assert mine.items[ORE] == 6 and not mine.working


def test_an_attack_freezes_and_robs():
    env = arena("...", "...", agents=("agent 1 1 right", "agent 2 3 up"), rewards={"ore": 0.25, "heart": 1})
    thief, victim = env.world.agents
    assert "attack" not in legal(env)
    thief.items, victim.items = [199, 0, 0, 2, 0], [3, 0, 2, 0, 1]
    assert step(env, Act.ATTACK, Act.NOOP) == [0, 0]
    assert thief.items[LASER] == 1 and victim.items == [3, 0, 2, 0, 0] and not victim.frozen  # that was its armor
    env.world.steps = 2
    assert step(env, Act.ATTACK, Act.FORWARD) == [2.25, -2.25]
    assert thief.items == [200, 0, 2, 0, 0] and victim.items == [2, 0, 0, 0, 0]
    assert victim.frozen == 10 and victim.cell == (2, 3)  # hit before it could move
    assert env.metrics(0) == (0, 1, 0)
    thief.items[LASER] = 1
    for _ in range(10):
        assert legal(env, 1) == {"noop"} and "attack" not in legal(env)
        step(env, Act.NOOP, Act.NOOP)
    assert "forward" in legal(env, 1) and "attack" in legal(env)


def test_whom_an_attack_meets():
    """The nearest row first; straight on, then left, then right."""
    others = {(2, 2): "left", (2, 4): "right", (1, 3): "far", (4, 3): "behind", (3, 2): "beside"}
    lines = tuple(f"agent {row} {column} up" for row, column in others)
    env = arena(".....", ".....", ".....", ".....", agents=("agent 3 3 up", *lines))
    who, *others = env.world.agents
    met = []
    while (victim := env.world._victim(who)) is not None:
        met.append(others.index(victim))
        victim.frozen = 5
    assert met == [0, 1, 2]


def test_swaps():
    env = arena(".s.", agents=("agent 1 1 right", "agent 1 3 left"))
    first, second = env.world.agents
    step(env, Act.SWAP, Act.NOOP)
    assert first.cell == (1, 2) and env.world.things[1, 1].kind == Kind.BLOCK
    assert "swap" not in legal(env)
    second.frozen = 5
    step(env, Act.SWAP, Act.NOOP)
    assert (first.cell, second.cell) == ((1, 3), (1, 2))


def test_navigation_ends_with_the_last_heart():
    env = MettaGrid(map="#####\n#_._#\n#####\nagent 1 2 left")
    env.reset(seed=0)
    assert legal(env) >= {"get"} and env.metrics() == (0, 0, 0)
    assert env.step(Act.GET)[1:4] == (1, False, False)
    assert env.metrics() == (1, 0, 0.5)
    env.step(RIGHT)
    assert env.step(Act.GET)[1:4] == (1, True, False)
    assert env.metrics() == (2, 0, 1)
    env = MettaGrid(map="#####\n#_._#\n#####\nagent 1 2 up", max_steps=2)
    env.reset(seed=0)
    assert env.step(Act.NOOP)[2:4] == (False, False)
    assert env.step(Act.NOOP)[2:4] == (False, True)


def test_the_tokens():
    env = arena("@m.", "..s", agents=("agent 2 2 down",))
    first, second = env.world.agents
    first.facing, second.frozen, second.items = 0, 4, [0, 7, 0, 0, 0]
    env.world.converters[0].working = 3
    names = dict(enumerate(("wall", "block", "agent", "mine")))
    seen = decode(env.observe(0))
    assert seen.everywhere == ((17, 0),)
    assert {cell: names[features[0][0]] for cell, features in seen.cells.items() if features[0][0]} == {
        (5, 5): "agent",
        (5, 6): "mine",
        (6, 6): "agent",
        (6, 7): "block",
    }
    assert seen.cells[5, 5] == ((2, 1), (8, 1), (9, 1))
    assert seen.cells[6, 6] == ((2, 1), (8, 3), (9, 2), (10, 4), (13, 7))
    assert seen.cells[5, 6] == ((3, 1), (11, 3))
    assert env.observe(0)[1].tolist() == [0x55, 2, 1]  # its own cell first
    step(env, Act.COLOUR + 1, Act.NOOP)
    assert decode(env.observe(0)).everywhere == ((17, 0), (18, 13))
    assert env.observation_space.contains(env.observe(0))


def test_a_crowd_of_tokens_is_cut():
    short, long = (MettaGrid(map=CROWDED, task="arena", agents=3, tokens=tokens) for tokens in (30, 200))
    for env in (short, long):
        env.reset(seed=3)
    np.testing.assert_array_equal(short.observe(0), long.observe(0)[:30])


def test_states_are_saved_and_restored():
    objects = {"wall": 2, "block": 1, "mine": 1, "generator": 1, "altar": 1, "lasery": 0, "armory": 0}
    env, twin = (MettaGrid("arena", rows=12, columns=12, objects=objects, max_steps=60) for _ in range(2))
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    play(env, rng, 50)
    twin.unpack(env.pack())
    np.testing.assert_array_equal(twin.pack(), env.pack())
    state = rng.bit_generator.state
    left = play(env, rng, 40)
    rng.bit_generator.state = state
    assert str(play(twin, rng, 40)) == str(left)
    np.testing.assert_array_equal(twin.pack(), env.pack())


def play(env, rng, steps):
    """Random legal actions; what each step gave."""
    results = []
    for _ in range(steps):
        result, over = env.step(eager(np.stack([env.mask(agent) for agent in env.agents]), rng))
        results.append(result)
        if over:
            env.reset()
    return results


# -- invariants --


def totals(world):
    return np.sum([thing.items for thing in (*world.agents, *world.converters)], 0)


def check_step(env, rng):
    """One random step; resources come and go by recipes and attacks alone."""
    world = env.world
    before, working, hits = totals(world), [each.working for each in world.converters], [who.hits for who in world.agents]
    env.step(eager(np.stack([env.mask(agent) for agent in env.agents]), rng))
    changed = totals(world) - before
    for then, converter in zip(working, world.converters, strict=True):
        recipe = RECIPES[converter.kind]
        changed -= np.array(recipe.makes) * (then == 1)
        changed += np.array(recipe.takes) * (converter.working == recipe.steps)
    blows = sum(who.hits for who in world.agents) - sum(hits)
    assert changed[ARMOR] <= 0
    assert changed.tolist() == [0, 0, 0, changed[ARMOR] - blows, changed[ARMOR]]


def check_world(env):
    world = env.world
    assert len({who.cell for who in world.agents}) == len(world.agents)
    assert [world.things[who.cell] for who in world.agents] == world.agents
    assert sum(isinstance(thing, Agent) for thing in world.things.values()) == len(world.agents)
    assert all(0 <= count <= 200 for who in world.agents for count in who.items)
    assert all(0 <= count <= 6 for converter in world.converters for count in converter.items)
    for agent in env.agents:
        obs = env.observe(agent)
        assert decode(obs).cells == expected_window(env, agent)
        boxes, everywhere = to_box(obs)
        assert (boxes <= FEATURE_MAX).all() and (everywhere <= FEATURE_MAX).all()


def check_invariants(text, seed, steps):
    env = MettaGrid("arena", agents=3, map=text, tokens=1_024)
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for who in env.world.agents:
        who.items = rng.integers(0, 5, len(Item)).tolist()
    for number in range(steps):
        check_step(env, rng)
        if number % 8 == 0:
            check_world(env)


@settings(max_examples=10)
@given(crowded_maps(), st.integers(0, 2**32))
def test_resources_are_conserved_and_tokens_decode_to_the_map(text, seed):
    check_invariants(text, seed, 25)


@pytest.mark.exact
@settings(max_examples=60)
@given(crowded_maps() | st.just(WORKSHOP), st.integers(0, 2**32))
def test_resources_are_conserved_at_length(text, seed):
    check_invariants(text, seed, 150)


# -- kernel against reference --


def compare_with_reference(num_envs, steps, seed, starts=None, threads=1, **options):
    """What the episodes that ended had in `final_info`."""
    kernel = hotlap.make_vec("mettagrid", num_envs, threads=threads, seed=seed, **options)
    python = hotlap.make_vec("mettagrid", num_envs, turbo=False, seed=seed, **options)
    return assert_lockstep(kernel, python, steps, seed, starts, choose=eager)


@pytest.mark.parametrize("task", ["navigation", "arena"])
@pytest.mark.parametrize("generator", GENERATORS)
def test_kernel_equals_reference(generator, task):
    ends = compare_with_reference(2, 45, 5, generator=generator, task=task, max_steps=30)
    assert len(ends) == 8


def test_where_little_room_is_left():
    """Where cells that fit are hardly ever drawn, and are searched for."""
    compare_with_reference(4, 2, 2, generator="maze", objects={"wall": 25, "altar": 24})
    walls = "\n".join(["#" * SIZE[1]] * 2 + ["#" * (SIZE[1] - 4) + "...#"] + ["#" * SIZE[1]] * (SIZE[0] - 3))
    compare_with_reference(4, 2, 2, {"map": walls}, task="arena", agents=3, map=CROWDED, tokens=60)


MANY_CASES = [
    {"agents": 40, "rows": 20, "columns": 40, "task": "arena", "max_steps": 80},
    {"agents": 1, "rows": 9, "columns": 9, "objects": {"altar": 1, "wall": 1}, "tokens": 16},
    {"agents": 2, "rows": 128, "columns": 128, "generator": "maze", "objects": {"altar": 40}, "max_steps": 50},
    {"agents": 5, "generator": "rooms", "task": "arena", "rewards": {"ore": 0.1, "heart": -1 / 3}, "max_steps": 200},
]


@pytest.mark.exact
@pytest.mark.parametrize("options", MANY_CASES)
def test_kernel_equals_reference_at_length(options):
    assert compare_with_reference(3, 400, 7, threads=2, **options)


@pytest.mark.exact
def test_kernel_equals_reference_over_whole_episodes():
    for task in ("navigation", "arena"):
        ends = compare_with_reference(2, 2_050, 3, task=task)
        assert max(end["length"] for end in ends) == 1_000


def test_a_workshop_in_lockstep():
    """Everything happens: hearts, hits, armor, swaps."""
    ends = compare_with_reference(4, 310, 1, task="arena", agents=3, map=WORKSHOP, max_steps=300, tokens=60)
    assert len(ends) == 4 * 3
    assert max(end["hits"] for end in ends) > 1 and max(end["hearts"] for end in ends) > 1


def test_one_agent():
    kernel, python = (
        hotlap.make_vec("mettagrid", 3, turbo=t, seed=1, map="#####\n#_._#\n#...#\n#####", agents=1) for t in (True, False)
    )
    ends = assert_lockstep(kernel, python, 150, 1, choose=eager)
    assert any(end["length"] < 100 and end["return"] == 2 and end["found"] == 1 for end in ends)


def check_maps(texts, seed, steps):
    starts = {"per_env": [{"map": text} for text in texts]}
    compare_with_reference(3, steps, seed, starts, task="arena", agents=3, map=CROWDED, tokens=60)


@settings(max_examples=10)
@given(st.lists(crowded_maps(), min_size=3, max_size=3), st.integers(0, 2**32))
def test_any_maps_one_for_each_environment(texts, seed):
    check_maps(texts, seed, 12)


@pytest.mark.exact
@settings(max_examples=40)
@given(st.lists(crowded_maps(), min_size=3, max_size=3), st.integers(0, 2**32))
def test_any_maps_at_length(texts, seed):
    check_maps(texts, seed, 100)


def test_a_map_stays_until_other_options_come():
    other = "\n".join(["#" * SIZE[1], *["#" + "." * (SIZE[1] - 2) + "#"] * (SIZE[0] - 2), "#" * SIZE[1]])
    for turbo in (True, False):
        env = hotlap.make_vec("mettagrid", 2, turbo=turbo, seed=0, task="arena", agents=3, map=CROWDED, tokens=60, max_steps=5)
        env.reset(options={"per_env": [{"map": other}, None]})
        rng = np.random.default_rng(0)
        for _ in range(7):  # over the end of an episode
            env.step(eager(env.outcome(0)[0].mask, rng))
        mines = to_box(env.outcome(0)[0].obs)[0][..., Kind.MINE].sum((1, 2))
        assert not mines[:3].any() and mines[3:].any()
        twin = hotlap.make_vec("mettagrid", 2, turbo=turbo, seed=5, task="arena", agents=3, map=CROWDED, tokens=60)
        twin.reset()
        twin.load_state(env.state())
        assert_lockstep(env, twin, 12, seed=2, reset=False, choose=eager)  # with the 5 steps of an episode, too
        env.reset(options={"map": None})
        assert to_box(env.outcome(0)[0].obs)[0][:3, ..., Kind.MINE].any()


def test_the_number_of_threads_changes_nothing():
    one, three = (hotlap.make_vec("mettagrid", 20, threads=threads, seed=4, max_steps=50) for threads in (1, 3))
    assert len(assert_lockstep(one, three, 110, seed=0, choose=eager)) >= 160
