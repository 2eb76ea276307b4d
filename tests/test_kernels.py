"""The kernel contract, on three toy games: kernel against reference through the vector environment, starts and tables per
environment, wrong actions, saving; every kernel compiled for CUDA; and numbers that are the same everywhere."""

import math
import re
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hotlap
from hotlap import envs
from hotlap.envs import device
from hotlap.envs.declare import declaration
from hotlap.envs.engine import ENVS
from hotlap.envs.layout import draw_legal
from hotlap.envs.numeric import sin_cos
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import RANDOM, Start
from tests.lockstep import assert_lockstep
from tests.toy_games import TOYS


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    for name, kind in TOYS.items():
        monkeypatch.setitem(envs.GAMES, name, f"tests.toy_games:{kind.__name__}")


def lockstep(left, right, steps, options=None, reset=True):
    """Step both with random legal actions, several at once in some games; how many episodes ended."""
    for env in (left, right) if reset else ():
        env.reset(seed=5, options=options)
    choose = partial(draw_legal, left.single_action_space)
    return len(assert_lockstep(left, right, steps, seed=5, reset=False, choose=choose))


@pytest.mark.parametrize(
    ("name", "num_envs", "threads", "workers", "depth"),
    [(name, *case) for name in TOYS for case in ((1, 1, 0, 2), (9, 2, 0, 5))] + [("herd", 8, 3, 2, 2)],
)
def test_kernel_equals_reference(name, num_envs, threads, workers, depth):
    kernel = hotlap.make_vec(name, num_envs, threads=threads, seed=1, depth=depth)
    python = hotlap.make_vec(name, num_envs, turbo=False, workers=workers, seed=1, depth=depth)
    assert kernel.num_envs == python.num_envs == num_envs * TOYS[name].env_spec.agents
    assert lockstep(kernel, python, 300) > 5 * num_envs
    kernel.close()
    python.close()


def test_what_seats_are_told():
    env = hotlap.make_vec("pass", 1, seed=0)
    _, info = env.reset()
    returns, seat = np.zeros(3), int(info["seat"][0])
    for _ in range(100):
        _, reward, over, _, info = env.step([3])
        returns += info["rewards"][0]
        assert reward[0] == info["rewards"][0, seat]
        if over[0]:
            assert info["rewards"][0, seat] == -1 and info["rewards"][0].sum() == 0
            np.testing.assert_allclose(info["final_info"]["returns"][0], returns)
            assert info["final_info"]["return"][0] == info["final_info"]["returns"][0, 0]
            return
        seat = int(info["seat"][0])
    raise AssertionError("the game must end")


def test_agents_end_apart_and_wait_for_the_others():
    for turbo in (True, False):
        env = hotlap.make_vec("herd", 2, turbo=turbo, seed=0)
        env.reset(options={"per_env": [{"supply": [1, 3, 9]}, None]})
        obs, reward, terminated, _, info = env.step([1, 1, 1, 0, 0, 0])
        assert terminated[:3].tolist() == [True, False, False] and info["active"][:3].tolist() == [False, True, True]
        assert info["final_obs"][0].tolist() == [-1, 1] and info["final_info"]["eaten"][0] == 1
        assert obs[0].tolist() == [0, 0] and info["action_mask"][0].all()  # it sees nothing, and may choose anything
        kept = info["final_info"]["length"][0]
        obs, reward, terminated, _, info = env.step([2, 0, 0, 0, 0, 0])  # whose first would be illegal for who plays
        assert kept == 1 and reward[0] == 0 and not terminated[0] and terminated[1] == (obs[1, 0] == 0)
        for _ in range(4):
            obs, _, _, truncated, info = env.step([0] * 6)
        assert truncated[2] and info["active"][:3].all() and (obs[:3, 1] == 0).all()  # a new episode for all
        assert info["final_info"]["length"][2] == 6
        env.close()


# -- starts and tables --


def test_starts_and_tables_of_each_environment():
    prizes = [float(i) for i in range(12)]
    each = {"per_env": [{"position": 4}, None, {"prizes": prizes, "position": 7}, {"prizes": prizes}]}
    kernel = hotlap.make_vec("walk", 4, seed=2)
    python = hotlap.make_vec("walk", 4, turbo=False, workers=2, seed=2)
    assert lockstep(kernel, python, 200, each) > 20
    assert kernel.engine.tables.arrays["prizes"].shape == (4, 12)
    kernel.reset(options={"per_env": [{"position": 4}, None, {"position": 7}, None]})
    _, reward, *_ = kernel.step([[0, 0]] * 4)
    assert (reward[0], reward[2]) == (-1, 7)  # its own table stays
    assert lockstep(kernel, python, 20) > 0
    python.close()


def test_one_table_for_all_until_one_differs():
    env = hotlap.make_vec("walk", 4, seed=0, best=9.0)
    env.reset()
    assert env.engine.tables.arrays["prizes"].shape == (1, 12) and env.engine.tables.arrays["prizes"][0, -1] == 9
    env.reset(options={"prizes": env.game.tables()["prizes"].tolist()})
    assert len(env.engine.tables.arrays["prizes"]) == 1
    env.reset(options={"prizes": [1.0] * 12})
    assert len(env.engine.tables.arrays["prizes"]) == 4
    assert env.game.tables()["prizes"][-1] == 9
    alone = hotlap.make_vec("walk", 1)
    alone.reset(options={"prizes": [1.0] * 12})
    assert alone.game.tables()["prizes"][0] == 0  # the game's own stays as it is


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positon": 3}, "walk: unknown reset option 'positon'; it takes position, prizes"),
        ({"position": 30}, "walk: position must be"),
        ({"per_env": [{"position": 1}]}, "is a list of 2"),
        ({"per_env": [{"position": 1}, {"x": 1}]}, "unknown reset option 'x'"),
        ({"per_env": [{"position": 1}, 3]}, "holds options or None"),
        ({"per_env": [None, None], "position": 3}, "stands alone"),
    ],
)
def test_wrong_starts(turbo, options, message):
    env = hotlap.make_vec("walk", 2, turbo=turbo, seed=0)
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize("game", ["snake", "cartpole"])
def test_games_refuse_unknown_options(turbo, game):
    with pytest.raises(ValueError, match=f"{game}: unknown reset option 'x'; it takes "):
        hotlap.make_vec(game, 2, turbo=turbo).reset(options={"x": 1})


def test_a_board_for_each_environment():
    boards = [{"board": {"body": [(5, 5), (5, 4)], "food": (0, column)}} for column in range(3)]
    options = {"per_env": [*boards, None]}
    kernel, python = (hotlap.make_vec("snake", 4, turbo=turbo, seed=1, features="grid") for turbo in (True, False))
    obs, _ = kernel.reset(options=options)
    assert np.argwhere(obs[:3, :, :, 2])[:, 1:].tolist() == [[0, 0], [0, 1], [0, 2]]
    assert lockstep(kernel, python, 100, options) > 3


def test_a_refused_table_leaves_the_others_as_they_are():
    """A kernel reads the tables where they lie: it must never be left with some new ones and pointers to the old."""
    env, twin = (hotlap.make_vec("petri", 3, wafers=3, seed=0) for _ in range(2))
    lockstep(env, twin, 20)
    first, *_, last = env.engine.tables.arrays
    before = {name: array.copy() for name, array in env.engine.tables.arrays.items()}
    changed, wrong = before[first][0] + 1, before[last][0][:-1]
    with pytest.raises(ValueError, match=f"table {last} must be"):
        env.engine.reset(None, [RANDOM, Start(tables={first: changed}), Start(tables={first: changed, last: wrong})], 0)
    saved = env.state()
    with pytest.raises(ValueError, match=f"the saved table {last} does not fit"):
        env.load_state(
            {**saved, f"table.{first}": saved[f"table.{first}"] + 1, f"table.{last}": saved[f"table.{last}"][:, :-1]}
        )
    for name, array in env.engine.tables.arrays.items():
        np.testing.assert_array_equal(array, before[name])
    lockstep(env, twin, 20, reset=False)


# -- wrong actions --


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize(
    ("game", "actions", "message"),
    [
        ("walk", [[0, 0], [0, 0], [3, 0]], r"action \[3 0\] of environment 2 is outside MultiDiscrete"),
        ("walk", [[0, 0], [0, -1], [0, 0]], r"action \[ 0 -1\] of environment 1 is outside MultiDiscrete"),
        ("walk", [[1, 1], [2, 0], [0, 0]], r"action \[2 0\] of environment 1 is illegal"),
        ("herd", [0] * 7 + [2, 0], "action 2 of agent 1 of environment 2 is illegal"),
        ("herd", [0] * 8 + [5], r"action 5 of agent 2 of environment 2 is outside Discrete\(3\)"),
    ],
)
def test_wrong_actions_step_nothing(turbo, game, actions, message):
    start, right = ({"position": 0}, [[1, 0]] * 3) if game == "walk" else ({"supply": [9, 2, 9]}, [0] * 9)
    for workers in (0,) if turbo or "outside Multi" in message else (0, 2):
        env = hotlap.make_vec(game, 3, turbo=turbo, workers=workers, async_factor=max(1, workers), seed=0)
        twin = hotlap.make_vec(game, 3, turbo=turbo, seed=0)
        for each in (env, twin):
            each.reset(options=start)
        before = env.state()
        with pytest.raises(ValueError, match=message):
            env.step(actions)
        for name, array in env.state().items():
            np.testing.assert_array_equal(array, before[name])
        for one, other in zip(env.step(right)[:4], twin.step(right)[:4], strict=True):  # and it goes on as if nothing was
            np.testing.assert_array_equal(one, other)
        env.close()


# -- saving --


@pytest.mark.parametrize("name", TOYS)
@pytest.mark.parametrize("turbo", [True, False])
def test_saved_and_restored_to_the_bit(name, turbo):
    options = {"per_env": [None, {"prizes": [0.5] * 12}, None, None]} if name == "walk" else None
    env, other = (
        hotlap.make_vec(name, 4, turbo=turbo, workers=workers, seed=3) for workers in (0, 2 * (not turbo and name == "herd"))
    )
    random, _ = np.random.default_rng(0), env.reset(options=options)
    for _ in range(17):
        env.step(draw_legal(env.single_action_space, env.outcome(0)[0].mask, random))
    saved = env.state()
    other.reset(seed=99)
    np.testing.assert_array_equal(other.load_state(saved), saved["obs"])
    lockstep(env, other, 40, reset=False)
    if turbo and name == "walk":
        with pytest.raises(ValueError, match="the saved table prizes does not fit"):
            other.load_state({**saved, "table.prizes": saved["table.prizes"][:3]})
    other.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_masks_are_told_after_a_restored_state(workers):
    env, other = (hotlap.make_vec("walk", 4, turbo=False, workers=each, seed=3) for each in (0, workers))
    env.reset()
    other.load_state(env.state())
    np.testing.assert_array_equal(other.step([[1, 0]] * 4)[-1]["action_mask"], env.step([[1, 0]] * 4)[-1]["action_mask"])
    other.close()


# -- declarations --


def test_what_cannot_be_declared():
    spec = EnvSpec.dense((3,), actions=2)
    for wrong in (replace(spec, obs_dtype="<f8"), replace(spec, action_sizes=()), replace(spec, seats=2, agents=2)):
        with pytest.raises(ValueError, match="kernel"):
            declaration(wrong, {})
    with pytest.raises(ValueError, match="REWARD: a kernel's constants are finite"):
        declaration(spec, {"REWARD": math.inf})


def test_wrong_options_and_errors_inside_a_constructor(monkeypatch):
    with pytest.raises(ValueError, match="walk: unknown option: got an unexpected keyword argument 'size'"):
        hotlap.make_vec("walk", 2, size=3)

    def fail(self, best=3.0):
        raise TypeError("a bug of the game's own")

    monkeypatch.setattr(TOYS["walk"], "__init__", fail)
    with pytest.raises(TypeError, match="a bug of the game's own"):
        hotlap.make_vec("walk", 2)


def test_a_header_of_the_users_is_not_included(tmp_path, monkeypatch):
    (tmp_path / "declaration.h").write_text("#error not ours")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    hotlap.make_vec("pass", 1).reset()


def test_tables_must_be_as_declared(monkeypatch):
    for tables, message in (
        ({}, "tables are prizes, not none"),
        ({"prizes": np.zeros(12)}, r"table prizes must be <f4 of shape \(12,\), not <f8"),
        ({"prizes": np.zeros(11, np.float32)}, r"not <f4 of shape \(11,\)"),
    ):
        monkeypatch.setattr(TOYS["walk"], "tables", lambda self, tables=tables: tables)
        with pytest.raises(ValueError, match=message):
            hotlap.make_vec("walk", 2)


# -- the page for authors --


def test_the_game_in_the_docs(tmp_path, monkeypatch):
    """Its code blocks, as they stand there: kernel against reference."""
    page = (Path(__file__).parents[1] / "docs" / "kernels.md").read_text()
    folder = tmp_path / "corridor"
    folder.mkdir()
    for language, name in (("python", "reference.py"), ("c", "kernel.h")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
        (folder / name).write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    kernel, python = (hotlap.make_vec("corridor.reference:Corridor", 9, turbo=t, seed=1, length=5) for t in (True, False))
    assert len(assert_lockstep(kernel, python, 200, seed=2)) > 50
    assert len(assert_lockstep(kernel, python, 20, seed=3, options={"per_env": [{"place": 4}, *[None] * 8]})) > 5
    with pytest.raises(ValueError, match="corridor: place must be 0 to 4"):
        kernel.reset(options={"place": 5})


# -- CUDA --

CUDA_OPTIONS = {
    "snake": [{"features": "basic"}, {"features": "flood", "size": 32}, {"features": "grid", "size": 5}],
    "hearts": [
        {"observation": "sparse"},
        {"observation": "bytes", "jd_bonus": True, "must_break_hearts": False},
        {"observation": "relative"},
        {"observation": "sparse", "history": 5},
    ],
    "cage2": [{"actions": "merged", "observation": "scans"}, {"observation": "truth", "replay": True}],
    "predators": [{}, {"agents": 16, "prey": 30, "map": "." * 64 + "\n" + "#." * 32}],
    "mettagrid": [{}, {"agents": 1, "tokens": 16}],
}


def compile_for_cuda(name, options, folder):
    game = envs.load_game(name)(**options)
    (folder / "kernel.cu").write_text(device.source(game))
    command = ["nvcc", "--fmad=false", f"-I{ENVS}", "-ptx", "kernel.cu", "-o", "kernel.ptx"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    ptx = (folder / "kernel.ptx").read_text()
    assert ".entry step" in ptx and "fma.rn" not in ptx


needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, CUDA's compiler")


@needs_nvcc
@pytest.mark.parametrize("name", envs.GAMES)
def test_kernels_compile_for_cuda(name, tmp_path):
    compile_for_cuda(name, CUDA_OPTIONS.get(name, [{}])[0], tmp_path)


@needs_nvcc
@pytest.mark.exact
@pytest.mark.parametrize("name", [*envs.GAMES, *TOYS])
def test_kernels_compile_for_cuda_with_other_options(name, tmp_path):
    for options in CUDA_OPTIONS.get(name, [{}, {}])[1:]:
        compile_for_cuda(name, options, tmp_path)


# -- numbers --


def exact_sin_cos(x):
    """By the series, in 60 digits, of a number brought near 0 by the exact pi."""
    with localcontext() as context:
        context.prec = 60
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
        r, terms = Decimal(x) % (2 * pi), [Decimal(1)]
        for n in range(1, 80):
            terms.append(terms[-1] * r / n)
        return sum(terms[1::4]) - sum(terms[3::4]), sum(terms[::4]) - sum(terms[2::4])


@pytest.mark.parametrize("scale", [1e-9, 0.3, 3.0, 100.0, 9e5])
def test_sine_and_cosine_are_right_to_the_last_place(scale):
    random = np.random.default_rng(0)
    for x in [float(x) for x in random.uniform(-scale, scale, 150)] + [k * math.pi / 4 for k in range(-8, 9) if scale == 3.0]:
        for ours, exact in zip(sin_cos(x), exact_sin_cos(x), strict=True):
            assert abs(Decimal(ours) - exact) < Decimal(math.ulp(float(exact))), x


def test_sine_and_cosine_beyond_their_range():
    for x in (1e6, -1e300, math.inf, math.nan):
        assert all(math.isnan(value) for value in sin_cos(x))
