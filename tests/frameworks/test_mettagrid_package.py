"""The real `mettagrid` package as a guest: its maps from its tokens, its own steps through hotlap, training and replay."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("mettagrid")

from hotlap.envs import metta
from hotlap.envs.mettagrid.objects import Kind
from hotlap.envs.mettagrid.tokens import VIEW, decode
from hotlap.envs.vector import make_gym, make_vec

MAP = """
##############
#..........._#
#.@...#......#
#.....#..@...#
#.._..#......#
#.....@......#
#..........@.#
##############
"""


def in_view(row, column):
    """The package shows a disc of the window."""
    return row**2 + column**2 <= VIEW**2 + 1


def seen_by(obs, tags, tag):
    """What one agent sees of each cell, as the package names it."""
    cells = {}
    for cell, features in decode(obs).cells.items():
        names = [tags[value] for feature, value in features if feature == tag]
        cells[cell] = names[0].removeprefix("type:") if names else ""
    return cells


def test_the_decoder_reads_the_package_s_maps():
    """Every agent's tokens show exactly the objects of its window, as the simulation itself lists them."""
    env, tags, tag = metta.MettaEnv(map=MAP), metta.tag_names(), metta.features()["tag"][0]
    env.reset(seed=0)
    assert env.agents == 4
    rng = np.random.default_rng(0)
    for _ in range(30):
        env.step(rng.integers(0, len(env.action_names), 4))
        things = list(env.simulation.grid_objects().values())
        where = {(thing["location"][1], thing["location"][0]): thing["type_name"] for thing in things}
        agents = {thing["agent_id"]: (thing["location"][1], thing["location"][0]) for thing in things if "agent_id" in thing}
        for agent, (row, column) in agents.items():
            around = {
                (there[0] - row + VIEW, there[1] - column + VIEW): name
                for there, name in where.items()
                if in_view(there[0] - row, there[1] - column)
            }
            assert seen_by(env.arrays.obs[agent], tags, tag) == around
    env.close()


def test_the_same_map_in_both_engines():
    """Walls and altars where hotlap's own environment has them, from the tokens of both."""
    obs, _ = make_vec("mettagrid", 1, map=MAP, seed=0).reset(seed=0)
    guest, tags, tag = metta.MettaEnv(map=MAP), metta.tag_names(), metta.features()["tag"][0]
    guest.reset(seed=0)
    kinds = {Kind.WALL: "wall", Kind.AGENT: "agent", Kind.ALTAR: "altar"}
    own_views, views = set(), set()
    for tokens in obs:
        seen = {cell: dict(features) for cell, features in decode(tokens).cells.items()}
        cells = {cell: next(name for kind, name in kinds.items() if kind in features) for cell, features in seen.items()}
        own_views.add(frozenset((cell, name) for cell, name in cells.items() if in_view(cell[0] - VIEW, cell[1] - VIEW)))
    for tokens in guest.arrays.obs:
        views.add(frozenset(seen_by(tokens, tags, tag).items()))
    assert own_views == views and len(views) == 4


def test_vectors_are_what_single_simulations_are():
    """The same observations, rewards and episodes as from simulations that are stepped by hand, in this process and in workers."""
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 5, (60, 8))
    results = []
    for workers in (0, 2):
        env = make_gym("mettagrid/", 2, workers=workers, max_steps=25, agents=4)
        obs, _ = env.reset(seed=3)
        steps = [obs.copy()]
        for step in actions:
            obs, reward, _, truncated, info = env.step(step)
            steps += [obs.copy(), reward.copy(), truncated.copy()]
            if truncated.any():
                steps.append(info["final_obs"].copy())
                assert truncated.all() and (info["final_info"]["length"] == 25).all()
                steps.append(info["final_info"]["return"].copy())
        results.append(steps)
        env.close()
    assert all(np.array_equal(one, other) for one, other in zip(*results, strict=True))
    for number in range(2):
        alone = metta.MettaEnv(max_steps=25, agents=4)
        alone.reset(seed=3 + 4 * number)
        rows = slice(4 * number, 4 * number + 4)
        assert np.array_equal(alone.arrays.obs, results[0][0][rows])
        for t in range(24):
            alone.step(actions[t][rows])
            assert np.array_equal(alone.arrays.obs, results[0][1 + 3 * t][rows])
            assert np.array_equal(alone.arrays.reward, results[0][2 + 3 * t][rows])
        alone.close()


def test_a_heart_is_a_reward():
    env = metta.MettaEnv(map="#####\n#@._#\n#####\n")
    env.reset(seed=0)
    east = env.action_names.index("move_east")
    rewards = [float(env.step([east])[1]) for _ in range(4)]
    assert sorted(rewards) == [0, 0, 0, 1] and env.metrics() == (1.0, 1.0)
    assert [text for text, _ in env.draw()[1]] == ["#", ".", "@", "_", "#"]
    env.close()


def hotlap(*arguments, cwd):
    command = [sys.executable, "-m", "hotlap", *map(str, arguments)]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_train_profile_and_replay(tmp_path):
    flags = [
        "--engine",
        "metta",
        "--num-envs",
        "2",
        "--horizon",
        "16",
        "--bptt",
        "0",
        "--batch-size",
        "64",
        "--max-steps",
        "20",
    ]
    more = ["--total-steps", "400", "--evaluation-episodes", "2", "--json", "--out", "run"]
    trained = json.loads(hotlap("train", "mettagrid", *flags, *more, cwd=tmp_path))
    assert trained["evaluation"]["score_name"] == "found" and trained["evaluation"]["mean_length"] == 20
    profile = json.loads(hotlap("profile", "mettagrid", *flags, "--iterations", "3", "--json", cwd=tmp_path))
    assert {"collect/env_step", "collect/act", "update/loss"} <= profile["stages"].keys()
    replayed = hotlap("replay", "run", "--json", cwd=tmp_path)
    assert json.loads(replayed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "arena"}, "plays navigation"),
        ({"map": "#####\n#@.m#\n#####\n"}, "no mine"),
        ({"map": "#####\n#@.?#\n#####\n"}, "line 2"),
    ],
)
def test_what_the_package_cannot_play(options, message):
    with pytest.raises(ValueError, match=message):
        make_gym("mettagrid/", 1, **options)
