"""DQN with environments, replay memory and network on a GPU, in CUDA graphs and without; skipped where there is none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hotlap
from hotlap.core import nvrtc, stages
from hotlap.core.clock import StageClock
from hotlap.core.errors import NotFinite
from hotlap.systems import load
from hotlap.train import dqn, q_gpu, td
from hotlap.train.adam_gpu import GpuAdam
from hotlap.train.flat import Adam, flatten
from hotlap.train.nets import mlp_qnet
from hotlap.train.replay import Batch, Replay, VectorStep
from hotlap.train.replay_gpu import GpuReplay
from tests.test_dqn import SPECS, observations, stream

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(nvrtc.missing()), reason=f"needs a CUDA GPU: {nvrtc.missing()}")]
CUDA = torch.device("cuda")
FIELDS = ("obs", "next_obs", "next_mask", "action", "reward", "discount", "open")

SMALL = {
    "num_envs": 64,
    "iteration_steps": 16,
    "batch_size": 128,
    "buffer_size": 4_000,
    "learning_starts": 1_000,
    "total_steps": 100_000,
    "target_sync": 7,
    "updates_per_step": 1.5,
    "epsilon_steps": 20_000,
}


def started(game="snake", **changes):
    options = changes.pop("options", {})
    config = replace(load("snake").presets["gpu"], **{**SMALL, **changes})
    if game == "snake":
        env = load("snake").make_env(config)
    else:
        device = "cuda" if config.env_device == "auto" else "cpu"
        env = hotlap.make_vec(game, config.num_envs, depth=config.iteration_steps + 1, device=device, **options)
    return config, env, dqn.start(config, env)


def iterate(run, times=1):
    config, env, state = run
    return [dqn.iterate(state, config, env, StageClock.for_device("cuda")) for _ in range(times)]


# -- replay --


@pytest.mark.parametrize(("num_envs", "n_step", "count"), [(1, 1, 20), (5, 3, 4), (700, 4, 30), (33, 7, 25)])
@pytest.mark.parametrize("words", [True, False])
def test_the_ring_is_the_one_in_torch(num_envs, n_step, count, words):
    kind = torch.float32 if words else torch.uint8
    given = (7 * num_envs, num_envs, (3,), kind, 0.9)
    replays = [Replay(*given, n_step=n_step, choices=3), GpuReplay(*given, n_step=n_step, choices=3, device=CUDA)]
    for step in stream(num_envs, count, seed=1):
        step = (step[0].to(kind), *step[1:3], step[3].to(kind), *step[4:])
        for replay in replays:
            replay.add(VectorStep(*(part.to(replay.device) for part in step)))
    assert len(replays[0]) == len(replays[1]) and replays[1].written == count
    for name in FIELDS:
        assert torch.equal(getattr(replays[0], name), getattr(replays[1], name).cpu()), name
    batch = replays[1].sample(20_000, torch.Generator(CUDA))
    for name in FIELDS[:-1]:
        assert torch.equal(getattr(batch, name), getattr(replays[1], name)[batch.rows]), name
    share = torch.bincount(batch.rows, minlength=1) / len(batch.rows)
    assert len(share) == len(replays[1])
    torch.testing.assert_close(share, torch.full_like(share, 1 / len(share)), rtol=0, atol=0.015)
    again = GpuReplay(*given, n_step=n_step, choices=3, device=CUDA)
    again.load_state(replays[0].state())
    for name, part in again.state().items():
        assert torch.equal(part.cpu(), replays[0].state()[name]), name


def test_priorities_are_those_in_torch():
    replays = [
        Replay(400, 16, (3,), torch.float32, 0.9, alpha=0.7),
        GpuReplay(400, 16, (3,), torch.float32, 0.9, alpha=0.7, device=CUDA),
    ]
    generator = torch.Generator().manual_seed(0)
    for step in stream(16, 40, seed=2):
        index, error = torch.randperm(16, generator=generator), torch.randn(16, generator=generator)
        for replay in replays:
            replay.add(VectorStep(*(part.to(replay.device) for part in step[:6])))
            replay.set_priorities(index.to(replay.device), error.to(replay.device))
    for one, other in zip(replays[0].tree.levels, replays[1].tree.levels, strict=True):
        torch.testing.assert_close(one, other.cpu())
    jitter = torch.rand(256, dtype=torch.float64, generator=generator)
    rows, weights = replays[0].tree.sample(jitter, 0.4)
    others = replays[1].tree.sample(jitter.cuda(), torch.tensor(0.4, dtype=torch.float64, device=CUDA))
    assert (rows == others[0].cpu()).float().mean() > 0.99
    torch.testing.assert_close(weights, others[1].cpu(), rtol=1e-3, atol=1e-3)


# -- acting and learning in CUDA and in torch --


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_learning_in_cuda_equals_autograd(spec, double, dueling, masked):
    config = dqn.Config(hidden=(20, 33), grad_clip=0.1, double=double, dueling=dueling)
    torch.manual_seed(0)
    nets = [mlp_qnet(config, spec, spec.choices).to(CUDA) for _ in range(2)]
    flat, target = (flatten(net) for net in nets)
    flat.data.add_(torch.randn_like(flat) * 0.3)
    ways = [(td.TorchActor(nets[0]), td.Autograd(*nets, flat, double)), td.choose(*nets, flat, target, spec, config)[:2]]
    assert isinstance(ways[1][0], q_gpu.GpuQ)
    generator = torch.Generator().manual_seed(1)
    for rows in (300, 300):
        obs, after = (observations(spec, rows, generator).cuda() for _ in range(2))
        legal = torch.rand(rows, spec.choices, generator=generator).cuda() < 0.6
        legal[:, 0] = True
        action = torch.randint(spec.choices, (rows,), generator=generator).cuda()
        numbers = torch.randn(3, rows, generator=generator).cuda()
        batch = Batch(
            obs,
            action,
            numbers[0] * 2,
            numbers[1].abs(),
            after,
            action,
            numbers[2].abs() if masked else None,
            legal if masked else None,
        )
        results = []
        for _, gradient in ways:
            flat.grad.fill_(float("nan"))
            error = gradient.loss(batch)
            gradient.backward()
            results.append((error, flat.grad.clone()))
        torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-3, atol=1e-6)
        draw = torch.rand(rows, generator=generator).cuda()
        for epsilon in (0.0, 0.4, 1.0):
            for given in (epsilon, torch.tensor(epsilon, dtype=torch.float64, device=CUDA)):
                acted = [actor.act(obs, legal if masked else None, draw, given) for actor, _ in ways]
                assert (acted[0] == acted[1]).float().mean() > 0.99
                assert not masked or legal.gather(1, acted[1][:, None]).all()
    torch.testing.assert_close(*(gradient.mean_loss() for _, gradient in ways), rtol=1e-4, atol=1e-6)
    assert isinstance(td.choose(*nets, flat, target, spec, config)[2], GpuAdam)


@pytest.mark.parametrize("clip", [0.0, 0.1])
def test_adam_in_cuda_equals_torch(clip):
    start, generator = torch.randn(50_000, device=CUDA), torch.Generator(CUDA).manual_seed(0)
    ways = [kind(torch.nn.Parameter(start.clone()), 0.01, 1e-8, clip) for kind in (Adam, GpuAdam)]
    for number in range(30):
        gradient = torch.randn(50_000, generator=generator, device=CUDA) * 10 ** (number % 5 - 4)
        for adam in ways:
            adam.skip.fill_(float(number % 7 == 3))
            adam.step(gradient.clone())  # torch's clips it in place
    for name in ("flat", "mean", "square", "steps", "norm"):
        torch.testing.assert_close(*(getattr(adam, name) for adam in ways), rtol=1e-4, atol=1e-6)


# -- graphs --

RECIPES = {
    "uniform": {},
    "many updates": {"updates_per_step": 70.0, "learning_starts": 2_000},
    "a third of an update": {"updates_per_step": 1 / 3},
    "prioritised": {"priority_alpha": 0.6, "dueling": True},
    "convolutions": {"features": "grid", "epsilon_steps": 0},
    "on the host": {"env_device": "cpu"},
    "masked": {"game": "petri"},
}


@pytest.mark.parametrize("name", RECIPES)
def test_graphs_compute_the_same(name, monkeypatch):
    """Over a hundred updates."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    runs = [started(**RECIPES[name], graphs=graphs) for graphs in (True, False)]
    metrics = [iterate(run, 8) for run in runs]
    (config, env, state), (_, other_env, other) = runs
    assert bool(state.graphs.captured) and not state.graphs.refused and not other.graphs.captured, str(state.graphs)
    assert state.updates >= (100 if config.updates_per_step > 1 else 30)
    for one, another in zip(*metrics, strict=True):
        assert one.scalars.keys() == another.scalars.keys() and one.means == pytest.approx(another.means)
        for key, value in one.scalars.items():
            assert value == pytest.approx(another.scalars[key], rel=1e-3, abs=1e-5), key
    torch.testing.assert_close(state.flat, other.flat, rtol=1e-4, atol=1e-5)
    for key, part in state.replay.state().items():
        torch.testing.assert_close(part, other.replay.state()[key], rtol=1e-4, atol=1e-5)
    counters = ("env_steps", "updates", "episodes", "iterations", "owed")
    assert [getattr(state, key) for key in counters] == [getattr(other, key) for key in counters]
    np.testing.assert_array_equal(env.state()["envs"], other_env.state()["envs"])


@pytest.mark.parametrize("changes", [{}, {"priority_alpha": 0.6}, {"net": "auto", "features": "grid"}, {"dueling": True}])
def test_an_iteration_waits_for_nothing(changes):
    run = started(graphs=False, **changes)
    config, env, state = run
    iterate(run, 3)
    env.rewind()
    planned = dqn.plan(state, config)
    schedule = torch.tensor([*planned.epsilon, *planned.beta, *planned.sync], dtype=torch.float64, device=CUDA)
    before = state.flat.detach().clone()
    torch.cuda.set_sync_debug_mode("error")
    try:
        state.steps(StageClock(), schedule, updates=tuple(planned.updates))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not torch.equal(before, state.flat) and torch.isfinite(state.flat).all()


def test_the_replay_memory_is_what_a_host_would_have_stored():
    """The same actions in environments of a CPU, with true final observations and n-step returns."""
    run = started(learning_starts=10**9, buffer_size=64 * 100, n_step=3)
    config, env, state = run
    host = load("snake").make_env(replace(config, device="cpu"))
    expected = Replay(config.buffer_size, 64, env.env_spec.obs_shape, torch.float32, config.gamma, config.n_step)
    obs, _ = host.reset(seed=[int(seed) for seed in dqn.parallel.row_seeds([config.seed], 64)])
    metrics = iterate(run, 6)
    actions, ended = state.replay.action.view(-1, 64).cpu(), []
    for t in range(6 * config.iteration_steps):
        before = torch.from_numpy(obs.copy())
        obs, reward, terminated, truncated, info = host.step(actions[t].numpy())
        after = obs.copy()
        if "_final_obs" in info:
            after[info["_final_obs"]] = info["final_obs"][info["_final_obs"]]
            ended += info["final_info"]["score"][info["_final_info"]].tolist()
        expected.add(
            VectorStep(before, actions[t], *(torch.from_numpy(part) for part in (reward, after, terminated, truncated)))
        )
    for name in FIELDS:
        assert torch.equal(getattr(state.replay, name).cpu(), getattr(expected, name)), name
    sums = [each.sums["score"] for each in metrics if "score" in each.sums]
    assert sum(count for _, count in sums) == len(ended) == state.episodes > 0
    assert sum(total for total, _ in sums) == pytest.approx(sum(ended))


# -- saving --


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("changes", [{}, {"priority_alpha": 0.6, "epsilon_steps": 0}])
def test_a_resumed_run_goes_on_as_it_would_have(graphs, changes):
    first = started(graphs=graphs, **changes)
    iterate(first, 5)
    arrays, numbers = dqn.save_state(first[2], first[1])
    arrays = {name: np.array(array) for name, array in arrays.items()}
    expected = iterate(first, 4)
    second = started(graphs=graphs, seed=9, **changes)
    iterate(second, 3)
    dqn.load_state(second[2], second[1], arrays, numbers)
    assert [each.scalars for each in iterate(second, 4)] == [each.scalars for each in expected]
    assert torch.equal(first[2].flat, second[2].flat)


def test_a_run_moves_between_devices():
    there = started()
    iterate(there, 5)
    for device, env_device in (("cpu", "auto"), ("cuda", "cpu"), ("cuda", "auto")):
        arrays, numbers = dqn.save_state(there[2], there[1])
        arrays = {name: np.array(array) for name, array in arrays.items()}
        there = started(device=device, env_device=env_device)
        dqn.load_state(there[2], there[1], arrays, numbers)
        again, same = dqn.save_state(there[2], there[1])
        assert same == numbers and again.keys() == arrays.keys()
        for name, array in arrays.items():
            if name != "generator":
                np.testing.assert_array_equal(again[name], array, name)
        assert all(np.isfinite(list(each.scalars.values())).all() for each in iterate(there, 2))


# -- what is seen of it --


def test_stages_and_counts():
    config, env, state = started()
    clock = StageClock.for_device("cuda")
    for number in range(6):
        with clock.iteration(trace=number == 5):
            dqn.iterate(state, config, env, clock)
    samples = clock.take(wait=True)
    assert samples[-1].counts == {"env_steps": 1024, "updates": 24, "episodes": samples[-1].counts["episodes"]}
    seen = samples[-1].inclusive
    for path in (
        "collect/act",
        "collect/env_step",
        "collect/store",
        "sample",
        "update/loss",
        "update/backward",
        "update/optimizer",
    ):
        assert seen[path] > 0, path
    assert seen["collect"] + seen["update"] + seen["sample"] < samples[-1].wall * 1.05
    assert stages.COLLECT in seen


def test_numbers_that_are_not_finite_stop_it():
    run = started()
    iterate(run, 3)
    run[2].flat.data.fill_(float("inf"))
    with pytest.raises(NotFinite, match="the loss is nan"):
        iterate(run, 2)


def test_it_learns():
    system = load("snake")
    config = replace(system.presets["gpu"], total_steps=5_000_000)
    env = system.make_env(config)
    state = system.start(config, env)
    while state.env_steps < config.total_steps:
        dqn.iterate(state, config, env, StageClock(enabled=False))
    assert dqn.evaluate(state, system.make_arena(config, 100), seed=3)["score"].mean() > 15
