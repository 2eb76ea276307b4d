"""On a real GPU: events, busy share, training. `pytest -m gpu` on a machine that has one; skipped elsewhere."""

import dataclasses
import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import hotlap
from hotlap import systems
from hotlap.core import machine, stages
from hotlap.core.clock import StageClock
from hotlap.launch.options import ProfileOptions as Options
from hotlap.launch.system import profile
from hotlap.record import codec
from hotlap.record.summary import profile_of
from hotlap.train import checkpoint, dqn, ppo
from hotlap.train.priorities import SumTree
from hotlap.train.replay import Replay, VectorStep

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def spin(milliseconds):
    """Keep the GPU busy without the host waiting."""
    torch.cuda._sleep(int(milliseconds * 1.5e6))


@pytest.mark.gpu
@gpu
def test_events_time_the_gpu_and_the_host_does_not_wait():
    clock = StageClock.for_device("cuda")
    spin(1)
    torch.cuda.synchronize()
    with clock.iteration(trace=True):
        with clock.stage(stages.COLLECT):
            spin(5)
        with clock.stage(stages.UPDATE):
            spin(50)
    assert clock.take() == []  # the GPU is still at it, and we did not wait
    (sample,) = clock.take(wait=True)
    assert sample.wall < 20e6
    assert sample.gpu["update"] > 5 * sample.gpu["collect"] > 5e6
    assert sample.gpu["update"] > 20e6


@pytest.mark.gpu
@gpu
def test_busy_share_and_memory_are_seen():
    with machine.GpuWatch("cuda", period=0.02) as watch:
        begin = time.monotonic()
        while time.monotonic() - begin < 1.5:
            spin(20)
            torch.cuda.synchronize()
    assert watch.busy_share > 0.3
    torch.zeros(1 << 20, device="cuda")
    assert machine.gpu_memory() >= 4 << 20
    assert machine.gpus()[0]["memory"] > 1e9


@pytest.mark.gpu
@gpu
def test_replay_is_the_same_on_both_devices():
    generator = torch.Generator().manual_seed(0)
    replays = [Replay(4_000, 16, (5,), torch.float32, 0.9, n_step=3, alpha=0.7, device=device) for device in ("cpu", "cuda")]
    for _ in range(300):
        obs, after = (torch.rand(16, 5, generator=generator) for _ in range(2))
        action, reward = torch.randint(3, (16,), generator=generator), torch.rand(16, generator=generator)
        ended = torch.rand(16, generator=generator)
        for replay in replays:
            step = (obs, action, reward, after, ended < 0.1, (ended > 0.1) & (ended < 0.2))
            replay.add(VectorStep(*(tensor.to(replay.device) for tensor in step)))
    for name in ("obs", "next_obs", "action", "reward", "discount", "open"):
        torch.testing.assert_close(getattr(replays[0], name), getattr(replays[1], name).cpu())
    cpu, cuda = (SumTree(5_000, torch.device(device)) for device in ("cpu", "cuda"))
    priority = torch.rand(5_000, dtype=torch.float64, generator=generator)
    for tree in (cpu, cuda):
        tree.set(torch.arange(5_000, device=tree.levels[0].device), priority.to(tree.levels[0].device))
    positions = torch.rand(1_000, dtype=torch.float64, generator=generator) * cpu.total
    assert (cpu.draw(positions) == cuda.draw(positions.cuda()).cpu()).float().mean() > 0.99


@pytest.mark.gpu
@gpu
def test_training_on_the_gpu_learns_resumes_and_is_measured(tmp_path):
    system = systems.load("snake")
    config = dataclasses.replace(
        system.presets["fast"],
        device="cuda",
        total_steps=200_000,
        updates_per_step=1,
        epsilon_steps=60_000,
        learning_starts=5_000,
        env_device="cpu",
    )
    env = system.make_env(config)
    state = dqn.start(config, env)
    clock = StageClock(enabled=False)
    while state.env_steps < config.total_steps:
        dqn.iterate(state, config, env, clock)
    assert dqn.evaluate(state, system.make_env(config, 100), seed=3)["score"].mean() > 4
    checkpoint.save(tmp_path, *dqn.save_state(state, env), checkpoint.Source("snake", "DQN", {}, env.env_spec))
    other_env = system.make_env(config)
    other = dqn.start(config, other_env)
    saved = checkpoint.load(tmp_path)
    dqn.load_state(other, other_env, saved.arrays, saved.numbers)
    for _ in range(2):
        first, second = dqn.iterate(state, config, env, clock), dqn.iterate(other, config, other_env, clock)
        assert first.scalars["train/loss"] == pytest.approx(second.scalars["train/loss"], rel=1e-3)
    config = dataclasses.replace(config, features="grid", graphs=False)
    doc = codec.to_json(profile_of(profile(system, config, Options(iterations=5, modules=True), out=tmp_path / "run")))
    assert 0 < doc["stages"]["update/loss"]["gpu_share"] < doc["stages"]["update"]["gpu_share"] < 1
    assert "collect/transfer" in doc["stages"]
    assert doc["memory"]["gpu_peak_bytes"] > 0
    assert doc["gpu_timing"].startswith("cuda events")
    assert sum(row["share"] for row in doc["stages"].values()) == pytest.approx(1, abs=0.005)
    assert doc["modules"][0]["backward"] > 0


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("changes", [{"cpu_offload": True}, {}, {"compile": True, "compile_mode": "reduce-overhead"}])
def test_a_recurrent_policy_with_auxiliary_losses_on_the_gpu(changes):
    """With the rollout on the device, in host memory, and compiled."""
    config = ppo.Config(num_envs=8, turbo=True, horizon=16, bptt=8, batch_size=64, hidden=(16,), device="cuda")
    config = dataclasses.replace(config, memory="lstm", memory_layers=2, contrastive=0.1, weight_analysis=1, **changes)
    env = hotlap.make_vec("cartpole", 8, seed=0, depth=17)
    state, clock = ppo.start(config, env), StageClock()
    for _ in range(3):
        with clock.iteration():
            scalars = ppo.iterate(state, config, env, clock).scalars
    assert all(math.isfinite(value) for value in scalars.values()) and scalars["train/contrastive"] > 0
    assert state.rollout.obs.is_cuda != config.cpu_offload and state.flat.is_cuda
    assert ("update/transfer" in clock.take(wait=True)[-1].exclusive) == config.cpu_offload


SCRIPT = """
import gymnasium, numpy as np, torch
from torch import nn
envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 8)
net = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 2)).cuda()
optimizer = torch.optim.Adam(net.parameters())
obs, _ = envs.reset(seed=0)
for iteration in range(60):
    seen = []
    for _ in range(32):
        batch = torch.from_numpy(obs).cuda()
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=net(batch)).sample().cpu().numpy()
        obs, *_ = envs.step(action)
        seen.append(batch)
    for _ in range(8):
        loss = net(torch.cat(seen)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
"""


@pytest.mark.gpu
@gpu
def test_a_script_on_the_gpu(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "hotlap", "profile", "train.py", "--iterations", "1000", "--warmup", "1", "--json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert doc["counts"]["env_steps"] == 60 * 32 * 8
    assert doc["unattributed"] <= 0.05
    assert 0 < doc["gpu_busy"] < 1
    assert "collect/act/transfer" in doc["stages"]
    assert doc["stages"]["update/backward"]["gpu_share"] > 0
    assert sum(row["share"] for row in doc["stages"].values()) == pytest.approx(1, abs=0.005)
    steps = doc["counters"]["by_stage"]
    assert steps["collect/act"]["copies_to_host"] == 2 * steps["collect/act"]["forwards"]  # actions; a check of the logits
    assert (
        steps["collect/store"]["bytes_to_device"] == 8 * 4 * 4 * steps["collect/store"]["copies_to_device"]
    )  # the observations
    assert doc["counters"]["syncs_per_update"] >= 1
    trace = subprocess.run(
        [sys.executable, "-m", "hotlap", "report", doc["run"], "--format", "trace"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    spans = json.loads((tmp_path / trace.stdout.decode().strip()).read_text())["traceEvents"]
    assert any(span["pid"] == 0 and span.get("dur") for span in spans)  # kernels


# -- PPO --


def ppo_on_gpu(**changes):
    config = dataclasses.replace(
        ppo.Config(num_envs=16, turbo=True, horizon=16, batch_size=64, hidden=(32, 32), device="cuda", total_steps=10_000),
        **changes,
    )
    env = hotlap.make_vec("cartpole", config.num_envs, seed=0)
    state = ppo.start(config, env)
    metrics = ppo.iterate(state, config, env, StageClock())
    return config, env, state, metrics


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"memory": "lstm"},
        {"memory": "attention"},
        {"priority_alpha": 0.8},
        {"normalize_obs": True, "normalize_reward": True},
        {"precision": "bfloat16"},
        {"accumulate": 2},
        {"target_kl": 1e-9},
    ],
)
def test_an_update_waits_for_nothing(changes):
    config, env, state, metrics = ppo_on_gpu(**changes)
    assert all(np.isfinite(list(metrics.scalars.values())))
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    ppo.compute_advantages(state, config)
    before = state.flat.detach().clone()
    torch.cuda.set_sync_debug_mode("error")
    try:
        ppo.learn(state, config, StageClock(), 0.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not torch.equal(before, state.flat) and torch.isfinite(state.flat).all()


@pytest.mark.gpu
@gpu
def test_a_gpu_skips_what_a_cpu_does_not_run():
    """Beyond the KL limit: on a GPU the updates of later epochs are made and change nothing."""
    _, _, stopped, _ = ppo_on_gpu(target_kl=1e-9, epochs=4)
    _, _, once, _ = ppo_on_gpu(target_kl=0.0, epochs=1)
    assert stopped.updates == 4 * once.updates
    assert stopped.optimizer.steps.item() == once.optimizer.steps.item()
    torch.testing.assert_close(stopped.flat, once.flat)


@pytest.mark.gpu
@gpu
def test_ppo_learns_alike_on_both_devices():
    scores = {}
    for device in ("cpu", "cuda"):
        config = ppo.Config(
            num_envs=32, turbo=True, horizon=64, batch_size=512, total_steps=120_000, learning_rate=2e-3, device=device
        )
        env = hotlap.make_vec("cartpole", 32, seed=0)
        state, clock = ppo.start(config, env), StageClock()
        while state.env_steps < config.total_steps:
            ppo.iterate(state, config, env, clock)
        scores[device] = ppo.evaluate(state, hotlap.make_vec("cartpole", 50, seed=1), 7)["return"].mean()
    assert min(scores.values()) > 400, scores


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_run_moves_to_another_device_and_back(algorithm, tmp_path):
    command = [sys.executable, "-m", "hotlap", "train", "CartPole-v1", "--turbo", "--json", "--algo", algorithm]
    command += ["--evaluation-episodes", "2"]
    for flags in (
        ["--total-steps", "2000", "--out", "run"],
        ["--resume", "run", "--total-steps", "5000", "--device", "cuda"],
        ["--resume", "run", "--total-steps", "8000", "--device", "cpu"],
    ):
        done = subprocess.run([*command, *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
