"""Timed nets as environments: hand-worked rules, an independent simulator, the kernel against the reference bit for bit."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.envs.layout import draw_legal
from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.net import NetBuilder
from hotlap.envs.petri.pnml import write_pnml
from hotlap.envs.petri.reference import FEATURES, PetriNet
from hotlap.envs.petri.rewards import Rewards
from hotlap.envs.petri.tables import ROLES
from tests.lockstep import assert_lockstep, random_legal
from tests.petri_nets import LARGEST, EventSimulator, random_net

# -- the cluster tool, by hand --


def play(env, *words):
    """Take actions by name; the last step's result."""
    for word in words:
        result = env.step(env.parse_action(word))
    return result


def legal(env):
    return [env.describe_action(action) for action in np.flatnonzero(env.mask())]


def test_a_wafer_is_picked_up_carried_and_put_down():
    env = PetriNet(wafers=2)
    env.reset()
    assert legal(env) == ["u_LP_s1", "WAIT"]
    reward = play(env, "u_LP_s1")[1]
    assert (env.now.time, reward) == (5, -5)  # the wafer has now been on its way for 5 s, which is long enough
    assert legal(env) == ["t_s1", "WAIT"]
    assert play(env, "t_s1")[1] == -5 + 2 * 5  # and is processed from the moment it is put down
    assert legal(env) == ["u_LP_s1", "WAIT"]
    assert play(env, *["WAIT"] * 12)[1] == 5
    assert "u_s1_s2" not in legal(env)  # 65 of 70 s
    assert play(env, "WAIT")[1] == 5
    assert "u_s1_s2" in legal(env)
    assert play(env, "WAIT")[1] == np.float32(-5 - 0.2 * 5)  # overtime


def test_transport_overtime_begins_after_ten_seconds():
    env = PetriNet(wafers=1)
    env.reset()
    assert [play(env, word)[1] for word in ("u_LP_s1", "WAIT", "WAIT")] == [-5, -5, -5 - 3 * 5]


def test_a_wafer_that_stays_too_long_is_scrap():
    env = PetriNet(wafers=1)
    env.reset(options={"marking": {"s1": [80], "TM2": 1, "TM3": 1}})
    _, _, terminated, _, _ = play(env, "WAIT")
    assert (terminated, env.metrics()) == (False, [5, 0, False, False])  # 85 s is 15 s after processing: still allowed
    _, reward, terminated, truncated, _ = play(env, "WAIT")
    assert (reward, terminated, truncated) == (-5 - 0.2 * 5 - 500, True, False)
    assert env.metrics() == [10, 0, False, True]


def test_the_last_wafer_ends_the_episode():
    env = PetriNet(wafers=2)
    env.reset(options={"marking": {"done": 1, "d_done": [5], "TM3": 1}})
    _, reward, terminated, _, _ = play(env, "t_done")
    assert (reward, terminated, env.metrics()) == (-5 + 10 + 800, True, [5, 2, True, False])


def test_waiting_costs_once_and_time_runs_out():
    env = PetriNet(wafers=1, max_time=400)
    env.reset()
    rewards = [play(env, "WAIT")[1] for _ in range(79)]
    assert rewards == [-5] * 59 + [-15] + [-5] * 19
    _, reward, terminated, truncated, _ = play(env, "WAIT")
    assert (reward, terminated, truncated) == (-105, False, True)


def test_a_deadlock_ends_the_episode_only_if_asked():
    marking = {"s2": 1, "s4": [70], "s3": [300], "TM3": 1, "d_s2": 1}  # TM2 holds a wafer for s2, which is full
    for stop, expected in ((False, (False, -5)), (True, (True, -505))):
        env = PetriNet(wafers=4, stop_when_dead=stop, rewards={"chamber_overtime": 0, "processing": 0})
        env.reset(options={"marking": marking})
        _, reward, terminated, _, _ = play(env, "u_s3_s4")
        assert (terminated, reward) == expected


def test_guards_block_the_fetching_of_wafers_for_full_stations():
    marking = {"LP": 1, "s1": [10, 5], "TM2": 1, "TM3": 1}
    for guards in (True, False):
        env = PetriNet(wafers=3, guards=guards)
        env.reset(options={"marking": marking})
        assert ("u_LP_s1" in legal(env)) is not guards


def test_observation_of_tokens():
    env = PetriNet(wafers=3)
    obs, _ = env.reset(options={"marking": {"LP": 1, "s1": [80], "s4": [30], "TM2": 1, "TM3": 1}})
    rows, counts, extra = obs[:15].reshape(3, 5), obs[15:30], obs[30:]
    places, roles = len(env.net.places), len(ROLES)
    expected = [
        [1 / 3, 1 / places, 1 / roles, 0, 10],
        [2 / 3, 2 / places, 2 / roles, 0.8, 0.05],  # 5 s until it is scrap
        [1, 5 / places, 2 / roles, 0.3, 10],
    ]
    np.testing.assert_array_equal(rows, np.array(expected, np.float32))
    assert {env.net.places[i].name: counts[i] for i in np.flatnonzero(counts)} == {
        "LP": np.float32(1 / 3), "s1": 0.5, "s4": 1, "TM2": 1, "TM3": 1
    }  # fmt: skip
    assert extra.tolist() == [0, 0]
    assert play(env, "WAIT")[0][30:].tolist() == [np.float32(5 / 300), np.float32(5 / 50_000)]


def test_observation_of_places():
    env = PetriNet(wafers=3, features="places")
    obs, _ = env.reset(options={"marking": {"s1": [80, 30], "s4": [30], "TM2": 1}})
    rows = dict(zip((place.name for place in env.net.places), obs[:-2].reshape(-1, 5).tolist(), strict=True))
    assert rows["s1"] == [1, 1, 0, np.float32(0.05), np.float32(0.4)]
    assert rows["s4"] == [1, 0, np.float32(0.4), 10, np.float32(0.4)]
    assert rows["TM2"] == [1, 0, 0, 0, 0]
    assert rows["TM3"] == rows["LP"] == [0] * 5


def test_tokens_keep_their_order_and_their_identity():
    net = (
        NetBuilder("assembly", wait=1).place("a", tokens=2).place("b", tokens=1).place("c", process=3).place("out", role="sink")
    )
    net.transition("join", {"a": 1, "b": 1}, ["c"], duration=1).transition("split", ["c"], {"out": 2}, duration=1)
    env = PetriNet(net=net.build())
    env.reset()
    play(env, "join")
    assert env.now.place_of[:3] == [2, 0, -1]  # the first of a goes on, that of b is used up
    assert legal(env) == ["WAIT"]
    play(env, "WAIT", "WAIT", "split")
    assert env.now.place_of[:3] == [3, 0, 3]  # and is joined by a new one, with the lowest id that is free


# -- against an independent simulator --


def compare_with_simulator(seed, steps=80):
    choose = random.Random(seed)
    net = random_net(choose)
    rewards = Rewards(waiting_limit=choose.choice([10, 20]), transport_grace=choose.choice([0, 4, 10]))
    rules = {"rewards": rewards, "max_time": choose.choice([40, 200]), "stop_when_dead": choose.random() < 0.5}
    env, slow = PetriNet(net=net, **rules), EventSimulator(net, **rules)
    _, info = env.reset()
    for step in range(steps):
        mask = info["action_mask"]
        assert mask.tolist() == [*slow.legal(), True], (seed, step)
        action = choose.choice(np.flatnonzero(mask).tolist() + np.flatnonzero(mask[:-1]).tolist() * 3)
        obs, reward, terminated, truncated, info = env.step(action)
        expected = slow.act(None if action == env.wait_action else net.transitions[action])
        assert (reward, terminated, truncated) == (pytest.approx(expected[0], rel=1e-6), *expected[1:]), (seed, step)
        assert env.now.counts == [slow.held(place.name) for place in net.places]
        seen = obs[: 5 * env.sizes.tokens].reshape(-1, 5)
        for token in slow.tokens:
            assert env.net.places[env.now.place_of[token["id"]]].name == token["place"]
            assert seen[token["id"], 3] == np.float32(min(1_000, slow.clock - token["since"]) * 0.01)
        if terminated or truncated:
            return step + 1
    return steps


def test_random_nets_behave_as_in_a_simulator_written_apart():
    assert sum(compare_with_simulator(seed) for seed in range(60)) > 600


@pytest.mark.exact
def test_many_random_nets_behave_as_in_a_simulator_written_apart():
    assert sum(compare_with_simulator(seed) for seed in range(60, 2_000)) > 15_000


# -- kernel against reference --


def busy(mask, rng):
    """Random legal actions, which wait less than by chance."""
    mask = mask.copy()
    mask[:, -1] &= (rng.random(len(mask)) < 0.5) | ~mask[:, :-1].any(1)
    return random_legal(mask, rng)


def lockstep(left, right, steps, seed, options=None):
    """How many episodes end."""
    return len(assert_lockstep(left, right, steps, seed, options, choose=busy))


def both(num_envs, threads=1, **options):
    return (
        hotlap.make_vec("petri", num_envs, seed=0, threads=threads, **options),
        hotlap.make_vec("petri", num_envs, seed=0, turbo=False, **options),
    )


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("options", [{}, {"wafers": 4, "stop_when_dead": True, "max_time": 2_000}], ids=["default", "four"])
def test_kernel_equals_reference(features, options):
    assert lockstep(*both(7, threads=2, features=features, **options), steps=400, seed=1) > 10


@pytest.mark.exact
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("wafers", [1, 3, 4, 12, 25, 300])
def test_kernel_equals_reference_for_long(features, wafers):
    steps = 5_000 if wafers < 300 else 1_000
    assert lockstep(*both(16, wafers=wafers, features=features, stop_when_dead=True), steps=steps, seed=wafers) > 50


def compare_random_nets(choose, features="tokens", steps=40):
    """A different net in each environment."""
    rules = {"max_time": 300, "stop_when_dead": choose.random() < 0.3, "rewards": {"waiting_limit": 20}}
    envs = both(5, features=features, net=random_net(choose), **rules, **LARGEST)
    nets = [None if choose.random() < 0.1 else {"net": random_net(choose)} for _ in range(5)]
    return lockstep(*envs, steps=steps, seed=choose.randrange(2**32), options={"per_env": nets})


@settings(max_examples=15)
@given(st.randoms(use_true_random=False))
def test_kernel_equals_reference_on_any_nets(choose):
    compare_random_nets(choose)


@pytest.mark.exact
@pytest.mark.parametrize("features", FEATURES)
def test_kernel_equals_reference_on_hundreds_of_nets(features):
    assert sum(compare_random_nets(random.Random(seed), features, 100) for seed in range(300)) > 3_000


# -- as a vector environment --


def test_a_net_from_a_file_is_the_net(tmp_path):
    write_pnml(cluster_tool(4), tmp_path / "tool.pnml")
    from_file = hotlap.make_vec("petri", 3, net=str(tmp_path / "tool.pnml"), seed=0)
    built_in = hotlap.make_vec("petri", 3, wafers=4, seed=0)
    assert lockstep(from_file, built_in, 300, 2) > 0


@pytest.mark.parametrize("turbo", [True, False])
def test_saved_environments_go_on_exactly(turbo):
    choose = random.Random(4)
    make = {"num_envs": 3, "turbo": turbo, "max_time": 300, "net": random_net(choose), **LARGEST}
    env = hotlap.make_vec("petri", seed=0, **make)
    _, info = env.reset(options={"per_env": [{"net": random_net(choose)}, None, {"net": random_net(choose)}]})
    draw = np.random.default_rng(0)
    for _ in range(20):
        info = env.step(draw_legal(env.single_action_space, info["action_mask"], draw))[-1]
    saved = env.state()
    other = hotlap.make_vec("petri", seed=5, **make)
    other.load_state(saved)
    for _ in range(60):
        actions = draw_legal(env.single_action_space, info["action_mask"], draw)
        *left, info = env.step(actions)
        *right, other_info = other.step(actions)
        for a, b in zip([*left, info["action_mask"]], [*right, other_info["action_mask"]], strict=True):
            np.testing.assert_array_equal(a, b)


def test_nets_reach_worker_processes():
    here, there = both(4, wafers=3), hotlap.make_vec("petri", 4, turbo=False, seed=0, workers=2, wafers=3)
    nets = {"per_env": [{"net": cluster_tool(2)}, None, {"marking": {"LP": 1, "s1": [70], "TM2": 1, "TM3": 1}}, None]}
    assert lockstep(here[0], there, 200, 3, nets) > 0
    there.close()


def test_a_given_net_stays_until_another_is_given():
    for env in both(1, wafers=12, net=None):
        small = cluster_tool(2)
        env.reset(options={"net": small, "marking": {"done": 1, "d_done": [5], "TM3": 1}})
        _, _, terminated, _, _ = env.step([small.transition_number["t_done"]])
        assert terminated[0]
        first = env.reset()[0].copy()
        assert np.count_nonzero(first[0, :60].reshape(12, 5)[:, 0]) == 2  # still two wafers
        obs, _ = env.reset(options={"marking": {"LP": 12, "TM2": 1, "TM3": 1}})  # a marking alone is one of the first net
        assert np.count_nonzero(obs[0, :60].reshape(12, 5)[:, 0]) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wafers": 0}, "wafers must be a whole number from 1 to 1,000, not 0"),
        ({"wafers": 3, "net": cluster_tool(2)}, "cluster tool\\) and net name different nets"),
        ({"features": "all"}, "unknown features 'all'; choose one of tokens, places"),
        ({"net": 3}, "net must be a Net or the path of a PNML file, not int"),
        ({"net": "none.pnml"}, "cannot read 'none.pnml'"),
        ({"max_time": 0}, "max_time must be a whole number"),
        ({"max_places": 3}, "max_places must be a whole number from 15 to 1,000, not 3"),
        ({"rewards": {"glory": 1}}, "rewards are given by name: time, processing"),
        ({"rewards": {"scrap": float("nan")}}, "reward term scrap cannot be nan"),
        ({"rewards": {"waiting_limit": 2.5}}, "reward term waiting_limit cannot be 2.5"),
        ({"speed": 3}, "unknown option.*speed"),
    ],
)
@pytest.mark.parametrize("turbo", [True, False])
def test_bad_options_raise_one_clear_error(options, message, turbo):
    with pytest.raises(ValueError, match=f"petri: .*{message}"):
        hotlap.make_vec("petri", 2, turbo=turbo, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"board": 1}, "unknown reset option 'board'; it takes net, marking"),
        ({"marking": 3}, "marking must be {place: number of tokens"),
        ({"marking": {"oven": 1}}, "the marking names a place that net 'cluster tool' does not have: 'oven'"),
        ({"marking": {"s1": [5, 70]}}, "s1 must list stays from the longest to the shortest"),
        ({"marking": {"s1": "many"}}, "s1 must be a number of tokens or their stays, not 'many'"),
        ({"marking": {"s1": 3}}, "puts 3 tokens into s1, which holds 2"),
        ({"marking": {"TM2": [1]}}, "of resource TM2 must be a number of tokens"),
        ({"marking": {"LP": 4}}, "the marking has 4 tokens, net 'cluster tool' at most 3"),
        ({"marking": {"LP": 3, "s1": 2}}, "the marking has 5 tokens, net 'cluster tool' at most 3"),
        ({"net": cluster_tool(4)}, "net 'cluster tool' needs max_tokens=4, not 3"),
    ],
)
@pytest.mark.parametrize("turbo", [True, False])
def test_bad_starts_raise_one_clear_error(options, message, turbo):
    env = hotlap.make_vec("petri", 2, turbo=turbo, wafers=3, seed=0)
    with pytest.raises(ValueError, match=f"petri: .*{message}"):
        env.reset(options=options)


@pytest.mark.parametrize("turbo", [True, False])
def test_illegal_actions_step_nothing(turbo):
    env = hotlap.make_vec("petri", 2, turbo=turbo, wafers=3, seed=0)
    env.reset()
    before = env.state()["envs"]
    with pytest.raises(ValueError, match="action 1 of environment 1 is illegal"):
        env.step([0, 1])
    with pytest.raises(ValueError, match="action 13 of environment 0 is outside"):
        env.step([13, 0])
    np.testing.assert_array_equal(env.state()["envs"], before)
