"""Training with environments on a GPU, in CUDA graphs and without; skipped where there is none."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import hotlap
from hotlap.core import nvrtc
from hotlap.core.clock import StageClock
from hotlap.core.errors import NotFinite
from hotlap.systems import load
from hotlap.train import dense_gpu, on_device, ppo
from hotlap.train.batches import GatheredSteps
from hotlap.train.gradients import ByAutograd
from tests.minibatches import minibatches

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(nvrtc.missing()), reason=f"needs a CUDA GPU: {nvrtc.missing()}")]

SMALL = {"num_envs": 64, "horizon": 16, "batch_size": 256, "total_steps": 100_000, "turbo": True, "workers": 0}


def started(name, seed=0, **changes):
    system = load(name.partition("-")[0]).using("ppo")
    config = replace(system.preset("fast"), seed=seed, device="cuda", **{**SMALL, **changes})
    env = system.make_env(config)
    return system, config, env, system.start(config, env)


def iterate(run, times=1):
    system, config, env, state = run
    clock = StageClock.for_device("cuda")
    return [system.trainer.iterate(state, config, env, clock) for _ in range(times)]


# -- by hand --


@pytest.mark.parametrize("changes", [{}, {"shared": True}, {"activation": "relu", "shared": True, "hidden": (256, 40)}])
@pytest.mark.parametrize("loss", [{}, {"value_clip": 0.1, "entropy": 0.02, "clip": 0.05}])
@pytest.mark.parametrize("name", ["snake", "connect4", "cage2", "hearts"])
def test_a_gradient_by_hand_is_autograds(name, changes, loss):
    plain = {"epochs": 1, "net": "mlp", "critic_hidden": (), "gae_lambda": 0.9, "normalize_return": False}
    run = started(name, **{**plain, **changes, **loss})
    _, config, _, state = run
    iterate(run)
    assert type(state.actor).__name__ in ("GpuActor", "AgainstPast") and isinstance(state.gradient, dense_gpu.GpuByHand)
    state.flat.data.add_(torch.randn_like(state.flat) * 0.05)  # the policy has moved, so that ratios are clipped
    state.entropy_weight.fill_(0.02 if config.entropy else 0.0)
    (batch,) = next(minibatches(state.rollout, config, torch.Generator("cuda"), 0.0, state.gradient))
    by_autograd = ByAutograd(
        state.net, state.flat, lambda *given: ppo.ppo_loss(state.actions, config, *given), "float32", compiled=False
    )
    results = []
    for gradient in (by_autograd, state.gradient):
        state.flat.grad.fill_(float("nan"))  # everything is to be written
        if gradient is by_autograd:
            state.flat.grad.zero_()
        losses = gradient.compute(batch, state.entropy_weight, StageClock(), True)
        results.append((state.flat.grad.clone(), torch.stack(list(losses))))
    torch.testing.assert_close(*(gradient for gradient, _ in results), rtol=2e-4, atol=2e-6)
    torch.testing.assert_close(*(losses for _, losses in results), rtol=1e-4, atol=1e-5)


def test_in_bfloat16_it_is_nearly_so():
    gradients = []
    for precision in ("float32", "bfloat16"):
        run = started("snake", precision=precision, shared=True, graphs=False)
        iterate(run)
        _, config, _, state = run
        state.flat.data.copy_(torch.randn(state.flat.shape, generator=torch.Generator().manual_seed(0)).cuda() * 0.1)
        rows = torch.Generator().manual_seed(1)
        (batch,) = next(minibatches(state.rollout, config, torch.Generator("cuda"), 0.0, state.gradient))
        batch = batch._replace(
            obs=torch.rand(batch.obs.shape, generator=rows).cuda(),
            action=torch.randint(3, batch.action.shape, generator=rows).cuda(),
            advantage=torch.randn(batch.advantage.shape, generator=rows).cuda(),
            return_=torch.randn(batch.advantage.shape, generator=rows).cuda(),
            log_prob=torch.full_like(batch.log_prob, -1.1),
        )
        state.gradient.compute(batch, state.entropy_weight, StageClock(), False)
        gradients.append(state.flat.grad.clone())
    assert (gradients[0] - gradients[1]).norm() < 0.02 * gradients[0].norm()


@pytest.mark.parametrize("masked", [False, True])
def test_actions_are_drawn_from_the_policy(masked):
    rows, actions = 200_000, 7
    heads = torch.randn(1, actions + 1, device="cuda").expand(rows, -1).contiguous()
    known = torch.tensor([1, 0, 1, 1, 0, 1, 1], dtype=torch.bool, device="cuda")
    legal = known.expand(rows, -1).contiguous() if masked else None
    action, results = torch.zeros(rows, dtype=torch.int64, device="cuda"), torch.zeros(2, rows, device="cuda")
    draw = torch.rand(rows, device="cuda")
    dense_gpu.program(False).run("choose", rows, heads, legal, draw, action, results[0], results[1], rows, actions)
    logits = heads[:, :-1] if legal is None else heads[:, :-1].masked_fill(~legal, -torch.inf)
    log_prob = torch.log_softmax(logits, -1)
    torch.testing.assert_close(results[0], log_prob.gather(1, action[:, None])[:, 0])
    assert torch.equal(results[1], heads[:, -1])
    counts = torch.bincount(action, minlength=actions) / rows
    torch.testing.assert_close(counts, log_prob[0].exp(), atol=0.005, rtol=0)
    if masked:
        assert counts[1] == counts[4] == 0


# -- graphs --

RECIPES = {
    "snake": {"shared": True},
    "cage2": {},
    "hearts": {"horizon": 64, "num_envs": 16},
    "hearts-attention": {"net": "attn-32x1", "horizon": 64, "num_envs": 16},
    "connect4": {"opponents": 2, "opponent_every": 2},
    "predators": {},
    "mettagrid": {"horizon": 32, "bptt": 16, "num_envs": 8, "batch_size": 256},
}


@pytest.mark.parametrize("name", RECIPES)
def test_with_graphs_and_without_training_is_the_same(name):
    with_graphs, without = (started(name, graphs=graphs, **RECIPES[name]) for graphs in (True, False))
    state, plain = with_graphs[3], without[3]
    assert with_graphs[2].on_device and without[2].on_device
    while plain.updates < 100:
        (one,), (other,) = iterate(with_graphs), iterate(without)
        assert one.sums == pytest.approx(other.sums)
        for key, value in other.scalars.items():
            assert one.scalars[key] == pytest.approx(value, rel=2e-2, abs=2e-4), (key, plain.updates)
    assert state.updates == plain.updates
    assert {"rollout", "summary"} <= set(state.graphs.captured) and not state.graphs.refused
    assert {"epoch", "update"} & set(state.graphs.captured)
    assert not plain.graphs.captured
    torch.testing.assert_close(state.flat, plain.flat, rtol=1e-2, atol=1e-3)


def test_decisions_are_gathered_on_the_gpu():
    run = started("snake")
    iterate(run)
    batches, generator = run[3].batches, torch.Generator("cuda").manual_seed(0)
    assert type(batches) is GatheredSteps
    seen = torch.cat([chosen for (chosen,) in batches.draw(generator, 0.0)])
    assert torch.equal(seen.sort()[0], torch.arange(64 * 16, device="cuda"))


def test_what_cannot_be_captured_goes_on_without_a_graph(monkeypatch):
    run = started("snake", epochs=1)
    state = run[3]
    original = state.gradient.compute

    def asks_the_gpu(*given):
        float(state.flat.sum())
        return original(*given)

    monkeypatch.setattr(state.gradient, "compute", asks_the_gpu)
    iterate(run, 4)
    assert "epoch cannot be captured" in state.graphs.refused and str(state.graphs).startswith("none: epoch cannot")
    assert state.updates == 4 * 64 * 16 // 256


# -- the rest of a run --


def test_it_learns_on_the_gpu():
    config = {"num_envs": 1024, "horizon": 32, "batch_size": 8192, "epochs": 2, "total_steps": 6_000_000, "shared": True}
    run = started("snake", **config)
    while run[3].env_steps < config["total_steps"]:
        iterate(run)
    played = ppo.evaluate(run[3], hotlap.make_vec("snake", 100, seed=1, features="flood"), 3)
    assert played["score"].mean() > 20


def test_stages_inside_graphs_sum_to_the_wall_time():
    run = started("snake", num_envs=4096, horizon=32, batch_size=32768, shared=True)
    system, config, env, state = run
    clock = StageClock.for_device("cuda")
    for number in range(6):
        with clock.iteration(trace=number > 2):
            system.trainer.iterate(state, config, env, clock)
        (sample,) = clock.take(wait=True)
    inside = {f"collect/{name}" for name in ("act", "env_step", "store")}
    inside |= {f"update/{name}" for name in ("loss", "backward", "optimizer")}
    assert inside | {"advantage", "sample", "log"} <= set(sample.exclusive) == set(sample.inclusive)
    assert sum(time for path, time in sample.inclusive.items() if "/" not in path) == pytest.approx(
        sum(sample.exclusive.values())
    )
    assert all(time >= 0 for time in sample.exclusive.values())
    assert 0.3 * sample.wall < sum(sample.exclusive.values()) < 1.02 * sample.wall  # other tests may use the GPU too
    assert sample.calls["collect/env_step"] == 32
    assert sample.calls["update/loss"] == state.updates / state.iterations


@pytest.mark.parametrize("algorithm", ["ppo"])
def test_a_run_moves_between_environments_on_cpu_and_gpu(algorithm, tmp_path):
    command = [sys.executable, "-m", "hotlap", "train", "snake", "--json", "--algo", algorithm, "--evaluation-episodes", "2"]
    for flags in (
        ["--total-steps", "20000", "--out", "run"],
        ["--resume", "run", "--total-steps", "60000", "--device", "cuda"],
        ["--resume", "run", "--total-steps", "90000", "--device", "cuda", "--no-graphs", "--env-device", "cpu"],
    ):
        done = subprocess.run([*command, *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["env_steps"] >= 90_000


def test_numbers_that_are_not_finite_are_found(monkeypatch):
    run = started("snake")
    _, _, env, state = run
    iterate(run, 3)
    step = env.engine.step

    def broken(slot):
        step(slot)
        env.rings["reward"][slot, 5] = float("nan")
        return 1

    monkeypatch.setattr(env.engine, "step", broken)
    monkeypatch.setattr(state, "steps", state.steps._function)
    with pytest.raises(NotFinite, match=r"environment 5 returned the reward nan in its step"):
        iterate(run)


def test_an_illegal_action_is_refused(monkeypatch):
    run = started("connect4", opponents=0)
    state = run[3]
    iterate(run)
    monkeypatch.setattr(state, "steps", state.steps._function)
    monkeypatch.setattr(state.actor, "act", lambda group, t: state.rollout.action[t].fill_(9))
    with pytest.raises(NotFinite, match="an action of environment 63 is illegal or outside"):
        iterate(run)


def test_values_of_where_episodes_were_cut_off(monkeypatch):
    """The discounted value of the true last observation, with the memory there, is added to these steps' rewards alone."""
    run = started("mettagrid", horizon=32, bptt=32, num_envs=4, batch_size=512, graphs=False)
    state, before = run[3], []
    original = on_device.bootstrap

    def noted(state, config, env, places):
        chosen = places.unbind(1)
        before.append((state.rollout.reward.clone(), chosen, env))
        with torch.no_grad():
            t, row = (int(part[0]) for part in chosen)
            memory = tuple(part[t, row][None] for part in state.rollout.path)
            before.append(config.gamma * state.net(env.finals["final_obs"][t + 1, row][None], memory)[1])
        original(state, config, env, places)
        before.append(state.rollout.reward - before[0][0])

    monkeypatch.setattr(on_device, "bootstrap", noted)
    while not before:
        iterate(run)
    (_, chosen, env), value, added = before
    assert len(chosen[0]) == env.num_envs and len(set(chosen[0].tolist())) == 1  # these episodes all last 1,000 steps
    torch.testing.assert_close(added[chosen[0][0], chosen[1][0]][None], value, rtol=1e-4, atol=1e-5)
    assert int((added != 0).sum()) == env.num_envs and len(state.rollout.path) == 2
