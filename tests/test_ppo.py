"""PPO: known answers, the memory of recurrent networks, exact resume."""

import json
import subprocess
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.core.clock import StageClock
from hotlap.envs.spec import EnvSpec
from hotlap.envs.vector import make_gym
from hotlap.systems import configs
from hotlap.train import ppo
from hotlap.train.actions import Discrete, Gaussian, actions_of
from hotlap.train.advantage import gae, gae_in_torch
from hotlap.train.gradients import ByAutograd, forward
from hotlap.train.normalize import Moments
from tests.cli import run_cli
from tests.minibatches import minibatches

SMALL = ppo.Config(num_envs=4, turbo=True, horizon=16, batch_size=32, epochs=2, hidden=(16, 16), total_steps=10_000)


def whole_minibatches(state, config, seed=0, progress=0.0):
    """The minibatches that autograd sees: in one part each."""
    by_autograd = ByAutograd(state.net, state.flat, None, "float32", compiled=False)
    generator = torch.Generator().manual_seed(seed)
    return [part for (part,) in minibatches(state.rollout, config, generator, progress, by_autograd)]


def cartpole(config, **options):
    return hotlap.make_vec("cartpole", config.num_envs, turbo=config.turbo, seed=config.seed, **options)


# -- advantages --


def slow_gae(reward, value, done, gamma, lam):
    """By the definition: a sum over the rest of the episode."""
    steps, envs = reward.shape
    out = np.zeros((steps, envs))
    for n in range(envs):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                alive = 1 - done[k, n]
                out[t, n] += weight * (reward[k, n] + gamma * value[k + 1, n] * alive - value[k, n])
                weight *= gamma * lam * alive
                if not alive:
                    break
    return out


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1))
def test_gae_by_definition(steps, envs, seed, gamma, lam):
    rng = np.random.default_rng(seed)
    reward, value = rng.normal(size=(steps, envs)), rng.normal(size=(steps + 1, envs))
    done = (rng.random((steps, envs)) < 0.3).astype(float)
    tensors = [torch.tensor(array, dtype=torch.float32) for array in (reward, value, done)]
    expected = slow_gae(reward, value, done, gamma, lam)
    np.testing.assert_allclose(gae(*tensors, gamma, lam).numpy(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        gae_in_torch(*tensors, gamma, lam, torch.empty(steps, envs)).numpy(), expected, rtol=1e-4, atol=1e-4
    )


def test_gae_by_hand():
    """Two steps, the second ends the episode: 1 + 0.9 * 3 - 2 = 1.7 and 1 - 3 = -2, which counts 0.9 * 0.5 before."""
    advantage = gae(torch.ones(2, 1), torch.tensor([[2.0], [3.0], [100.0]]), torch.tensor([[0.0], [1.0]]), 0.9, 0.5)
    assert advantage[:, 0].tolist() == pytest.approx([1.7 - 0.9, -2.0])
    monte_carlo = gae(torch.ones(3, 1), torch.zeros(4, 1), torch.tensor([[0.0], [0.0], [1.0]]), 0.5, 1.0)
    assert monte_carlo[:, 0].tolist() == pytest.approx([1.75, 1.5, 1.0])


# -- actions --


def test_discrete_against_torch():
    logits = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    actions = Discrete((5,))
    action, log_prob = actions.sample(logits, torch.Generator().manual_seed(1))
    expected = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(log_prob, expected.log_prob(action))
    evaluated, entropy = actions.evaluate(logits, action)
    torch.testing.assert_close(evaluated, log_prob)
    torch.testing.assert_close(entropy, expected.entropy())
    assert (actions.greedy(logits) == logits.argmax(-1)).all()


def test_discrete_samples_follow_their_probabilities():
    logits = torch.tensor([[0.0, 1.0, 2.0]]).expand(60_000, 3)
    action, _ = Discrete((3,)).sample(logits, torch.Generator().manual_seed(0))
    share = torch.bincount(action, minlength=3) / len(action)
    torch.testing.assert_close(share, torch.softmax(logits[0], -1), atol=0.01, rtol=0)


@pytest.mark.parametrize("rows", [10, 5_000])
def test_a_mask_is_never_broken(rows):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, 6, generator=generator) * 8
    mask = torch.rand(rows, 6, generator=generator) < 0.4
    mask[torch.arange(rows), torch.randint(0, 6, (rows,), generator=generator)] = True
    for _ in range(20):
        action = Discrete((6,)).sample_action(logits, generator, mask)
        assert mask[torch.arange(rows), action].all()


def test_several_choices_and_masks():
    actions = Discrete((3, 4))
    logits = torch.randn(5_000, 7, requires_grad=True)
    mask = torch.rand(5_000, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[:, 0] = mask[:, 3] = True
    action, log_prob = actions.sample(logits, torch.Generator().manual_seed(0), mask)
    assert action.shape == (5_000, 2)
    assert mask[torch.arange(5_000), action[:, 0]].all() and mask[torch.arange(5_000), 3 + action[:, 1]].all()
    evaluated, entropy = actions.evaluate(logits, action, mask)
    torch.testing.assert_close(evaluated, log_prob)
    (evaluated.mean() + entropy.mean()).backward()
    assert logits.grad.isfinite().all() and (logits.grad[~mask] == 0).all()


def test_gaussian_against_torch():
    output = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    action, log_prob = Gaussian(3).sample(output, torch.Generator().manual_seed(1))
    expected = torch.distributions.Normal(output[:, :3], output[:, 3:].exp())
    torch.testing.assert_close(log_prob, expected.log_prob(action).sum(-1))
    evaluated, entropy = Gaussian(3).evaluate(output, action)
    torch.testing.assert_close(evaluated, log_prob)
    torch.testing.assert_close(entropy, expected.entropy().sum(-1))


def test_action_spaces():
    assert actions_of(EnvSpec.dense((1,), actions=3)) == Discrete((3,))
    assert actions_of(EnvSpec.dense((1,), actions=(2, 3))) == Discrete((2, 3), (2,))
    box = actions_of(EnvSpec((1,), action_shape=(1, 2), action_low=-1.0, action_high=(0.5, 1.0)))
    assert box == Gaussian(2, (1, 2), -1.0, (0.5, 1.0)) and (box.outputs, box.deviations, box.shape) == (4, 2, (2,))
    assert box.to_env(torch.tensor([[3.0, 3.0], [-3.0, 0.0]])).tolist() == [[[0.5, 1.0]], [[-1.0, 0.0]]]


def test_sequences_and_priorities():
    config = replace(SMALL, num_envs=8, sequences=True)
    env = cartpole(config)
    state = ppo.start(config, env)
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    ppo.compute_advantages(state, config)
    rollout = state.rollout
    batches = whole_minibatches(state, config)
    assert [len(part.advantage) for part in batches] == [32] * 4  # two sequences of 16 steps each
    seen = torch.cat([part.log_prob for part in batches]).sort().values
    torch.testing.assert_close(seen, rollout.log_prob.flatten().sort().values)  # each once

    rollout.advantage[:] = 0.01
    rollout.advantage[:, 3] = 1.0
    rollout.value[:-1] = torch.arange(8.0)  # which sequence a row is of
    greedy = replace(config, priority_alpha=1.0, priority_beta=1.0, normalize_advantage=False)
    drawn = [part for seed in range(50) for part in whole_minibatches(state, greedy, seed)]
    numbers = torch.cat([part.value for part in drawn])
    share = float((numbers == 3).float().mean())
    assert share == pytest.approx(1 / 1.07, abs=0.03)  # its share of all advantages
    scaled = torch.cat([part.advantage for part in drawn])
    weight = 1 / (8 * (1 / 1.07))
    assert scaled[numbers == 3].mean().item() == pytest.approx(weight, rel=1e-3)  # and its importance weight undoes that


def test_attention_sees_its_context_and_no_further():
    config = replace(SMALL, memory="attention", context=3, num_envs=2, batch_size=32)
    env = cartpole(config)
    state = ppo.start(config, env)
    obs, done = torch.randn(6, 2, 4), torch.zeros(6, 2)
    done[3, 1] = 1.0

    def values(seen):
        return state.net.sequence(seen, done, state.net.initial(2))[1].view(6, 2)

    before = values(obs)
    for changed, row in ((1, 0), (2, 1)):
        other = obs.clone()
        other[changed, row] += 1
        moved = (values(other) - before).abs().detach() > 1e-7
        assert moved.any(1).tolist() == [changed <= t < min(changed + 3, 6 if row == 0 else 4) for t in range(6)]
        assert not moved[:, 1 - row].any()


class Recall(gymnasium.Env):
    """A light is shown at first; some steps later the agent must say which one. No observation in between tells."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.light, self.time = int(self.np_random.integers(2)), 0
        return np.array([2 * self.light - 1, 0], np.float32), {}

    def step(self, action):
        self.time += 1
        over = self.time == 5
        reward = (1.0 if action == self.light else -1.0) * over
        return np.array([0, self.time == 4], np.float32), reward, over, False, {}


@pytest.mark.parametrize(("memory", "knows"), [("none", False), ("lstm", True), ("gru", True), ("attention", True)])
def test_a_task_that_needs_a_memory(memory, knows):
    config = ppo.Config(
        num_envs=32, horizon=20, batch_size=320, epochs=4, hidden=(32,), memory=memory, total_steps=50_000, learning_rate=3e-3
    )
    env = make_gym(Recall, 32, seed=0, depth=21)
    state = ppo.start(config, env)
    while state.env_steps < config.total_steps:
        ppo.iterate(state, config, env, StageClock())
    played = ppo.evaluate(state, make_gym(Recall, 100, seed=9), 9)["return"].mean()
    assert played > 0.95 if knows else abs(played) < 0.4


def test_the_order_of_groups_does_not_matter():
    """Each group draws from its own generator."""
    config = replace(SMALL, turbo=False, num_envs=6, horizon=8, batch_size=16, async_factor=3, memory="gru")
    results = []
    for _ in range(2):
        env = make_gym("CartPole-v1", 6, seed=0, workers=3, async_factor=3, depth=9)
        state = ppo.start(config, env)
        for _ in range(3):
            ppo.iterate(state, config, env, StageClock())
        results.append(state.flat.detach().clone())
        assert state.env_steps == 144
        ppo.collect(state, config, env, StageClock(), ppo.Metrics())
        (batch,) = whole_minibatches(state, replace(config, batch_size=48))
        output, value = forward(state.net, batch)  # learning sees what each group saw when it acted
        torch.testing.assert_close(state.actions.evaluate(output, batch.action)[0], batch.log_prob, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(value, batch.value, rtol=1e-4, atol=1e-5)
        env.close()
    assert torch.equal(*results)


class Counters(gymnasium.Env):
    """Whole numbers in two dimensions."""

    observation_space = gymnasium.spaces.Box(0, 9, (2, 3), np.int64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros((2, 3), np.int64), {}

    def step(self, action):
        self.time += 1
        return np.full((2, 3), self.time), 1.0, self.time == 5, False, {}


@pytest.mark.parametrize("memory", ["none", "lstm", "attention"])
def test_whole_numbers_in_two_dimensions(memory):
    config = replace(SMALL, turbo=False, memory=memory)
    env = make_gym(Counters, 4, seed=0, depth=17)
    state = ppo.start(config, env)
    assert np.isfinite(list(ppo.iterate(state, config, env, StageClock()).scalars.values())).all()
    assert ppo.evaluate(state, make_gym(Counters, 3), 0)["length"].tolist() == [5, 5, 5]


def test_environments_write_into_the_rollout():
    config = replace(SMALL, num_envs=4)
    env = hotlap.make_vec("cartpole", 4, seed=0, depth=config.horizon + 1)
    state = ppo.start(config, env)
    assert state.rollout.in_place
    assert state.rollout.obs.data_ptr() == env.rings["obs"].ctypes.data
    assert state.rollout.reward.data_ptr() == env.rings["reward"][1:].ctypes.data
    other_env = cartpole(config)
    other = ppo.start(config, other_env)
    assert not other.rollout.in_place
    for _ in range(3):
        ppo.iterate(state, config, env, StageClock())
        ppo.iterate(other, config, other_env, StageClock())
    assert torch.equal(state.flat, other.flat)  # with or without a copy


TWO = """
import json, sys
from dataclasses import replace
import numpy as np
import torch
import hotlap
from hotlap.core.clock import StageClock
from hotlap.train import parallel, ppo
from hotlap.train.minibatch import Minibatch
from hotlap.train.batches import returns_and_advantages
config = ppo.Config(num_envs=4, turbo=True, horizon=16, batch_size=64, hidden=(16, 16), entropy=0.01, normalize_obs={normalize})
share = parallel.join(config)
env = hotlap.make_vec("cartpole", share.num_envs, seed=0, depth=17)
state = ppo.start(share, env)
rows = torch.Generator().manual_seed(0)
own = slice(parallel.rank() * share.batch_size, (parallel.rank() + 1) * share.batch_size)
obs, action = torch.randn(64, 4, generator=rows)[own], torch.randint(0, 2, (64,), generator=rows)[own]
log_prob = torch.log(torch.rand(64, generator=rows) * 0.8 + 0.1)[own]
value, advantage = (torch.randn(64, generator=rows)[own] for _ in range(2))
return_, scaled = returns_and_advantages(share, advantage, value, share.batch_size)
batch = Minibatch(obs, action, log_prob, value, scaled, return_)
state.entropy_weight.fill_(0.01)
for _ in range(3):
    ppo.update(state, StageClock(), [state.gradient.prepare(batch, share.batch_size)])
updated = state.flat.tolist()
ended = [len(ppo.iterate(state, share, env, StageClock()).episodes.get("return", ())) for _ in range(4)]
sums = parallel.gather({{"flat": state.flat.detach().numpy(), "ended": np.array(sum(ended))}})
if parallel.rank() == 0:
    others = [array.tolist() for name, array in sums.items() if name.startswith("rank") and name.endswith("flat")]
    ended = int(sum(array for name, array in sums.items() if name.endswith("ended")))
    now = state.flat.tolist()
    print(json.dumps({{"updated": updated, "now": now, "others": others, "steps": state.env_steps,
                      "ended": ended, "episodes": state.episodes}}))
parallel.leave()
"""


@pytest.mark.parametrize("normalize", [pytest.param(False, marks=pytest.mark.exact), True])
def test_two_processes_equal_one(tmp_path, normalize):
    script = tmp_path / "two.py"
    script.write_text(TWO.format(normalize=normalize))
    one = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone"]
    two = subprocess.run([*torchrun, script], capture_output=True, text=True, timeout=300, check=False)
    assert two.returncode == 0, two.stderr
    alone, together = json.loads(one.stdout), json.loads(two.stdout.splitlines()[-1])
    np.testing.assert_allclose(together["updated"], alone["updated"], rtol=1e-4, atol=1e-5)
    assert together["others"] == [together["now"]]  # both have learned the same
    assert together["steps"] == alone["steps"] == 4 * 64
    assert together["episodes"] == together["ended"] > 0 and alone["episodes"] == alone["ended"] > 0


@pytest.mark.exact
def test_train_with_torchrun(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "hotlap", "train"]
    flags = ["--turbo", "--num-envs", "8", "--total-steps", "4000", "--evaluation-episodes", "4", "--json", "--out", "run"]
    result = subprocess.run(
        [*torchrun, "CartPole-v1", *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    doc = json.loads(result.stdout)
    assert doc["counts"]["env_steps"] == 4096 and doc["evaluation"]["episodes"] == 4
    more = ["--resume", "run", "--total-steps", "6000", "--json"]
    result = subprocess.run(
        [*torchrun, "CartPole-v1", *more], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert result.returncode == 0 and json.loads(result.stdout)["counts"]["env_steps"] == 6144, result.stderr
    alone = [sys.executable, "-m", "hotlap", "train", "CartPole-v1", *more]
    result = subprocess.run(alone, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert result.returncode == 2 and "trained by 2 processes, not 1" in result.stderr


@pytest.mark.parametrize("memory", ["none", "lstm", "gru", "attention"])
def test_learning_sees_what_acting_saw(memory):
    """Before the first update every action is as likely, and every state as good, as when it was taken: also across the ends of
    episodes, where a memory must be cleared."""
    config = replace(SMALL, horizon=64, batch_size=128, memory=memory)
    with_env = cartpole(config)
    state = ppo.start(config, with_env)
    for _ in range(2):
        ppo.collect(state, config, with_env, StageClock(), ppo.Metrics())
    assert state.rollout.done.sum() > 2
    seen = 0
    for batch in whole_minibatches(state, config):
        output, value = forward(state.net, batch)
        log_prob, _ = state.actions.evaluate(output, batch.action)
        torch.testing.assert_close(log_prob, batch.log_prob, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(value, batch.value, atol=1e-5, rtol=1e-4)
        seen += len(value)
    assert seen == config.num_envs * config.horizon


class Short(gymnasium.Env):
    """Episodes of three steps that are cut off, or that end."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, truncate=True, terminate=False):
        self.truncate, self.terminate = truncate, terminate or not truncate

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(1, np.float32), {"action_mask": np.array([1, 0])}

    def step(self, action):
        assert action == 0, "an illegal action"
        self.time += 1
        over = self.time == 3
        return (
            np.full(1, self.time, np.float32),
            1.0,
            over and self.terminate,
            over and self.truncate,
            {"action_mask": np.array([1, 0])},
        )


@pytest.mark.parametrize(("truncate", "terminate"), [(True, False), (False, True), (True, True)])
def test_an_episode_that_is_cut_off_bootstraps_from_its_last_state(truncate, terminate):
    config = replace(SMALL, num_envs=2, turbo=False, horizon=6, batch_size=4)
    env = make_gym(lambda: Short(truncate, terminate), 2, seed=0)
    state = ppo.start(config, env)
    ppo.collect(state, config, env, StageClock(), metrics := ppo.Metrics())
    assert state.rollout.obs[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert state.rollout.done[:, 0].tolist() == [0, 0, 1, 0, 0, 1]
    with torch.inference_mode():
        value = 0.0 if terminate else float(state.net(torch.tensor([[3.0]]))[1])
    assert state.rollout.reward[2, 0].item() == pytest.approx(1 + config.gamma * value)
    assert metrics.episodes["length"] == [3.0] * 4 and metrics.episodes["return"] == [3.0] * 4
    assert (state.rollout.action == 0).all() and state.rollout.mask is not None  # the mask was heeded


def test_moments_against_numpy():
    rng = np.random.default_rng(0)
    data = rng.normal(5, 3, (1000, 2))
    moments = Moments((2,), torch.device("cpu"))
    for part in np.array_split(data, 13):
        moments.add(torch.from_numpy(part))
    np.testing.assert_allclose(moments.mean.numpy(), data.mean(0))
    np.testing.assert_allclose(moments.variance.numpy(), data.var(0))
    assert abs(float(moments.normalize(torch.from_numpy(data)).mean())) < 1e-6


# -- training --


@pytest.mark.parametrize(
    "changes", [{}, {"memory": "lstm", "batch_size": 32}, {"normalize_obs": True, "normalize_reward": True}]
)
def test_a_resumed_run_equals_an_uninterrupted_one(changes):
    config = replace(SMALL, **changes)
    clock = StageClock()
    whole_env, first_env, second_env = (cartpole(config) for _ in range(3))
    uninterrupted, first = ppo.start(config, whole_env), ppo.start(config, first_env)
    for _ in range(6):
        ppo.iterate(uninterrupted, config, whole_env, clock)
    for _ in range(3):
        ppo.iterate(first, config, first_env, clock)
    arrays, numbers = ppo.save_state(first, first_env)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    second = ppo.start(config, second_env)
    ppo.load_state(second, second_env, arrays, numbers)
    for _ in range(3):
        ppo.iterate(second, config, second_env, clock)
    for one, other in zip(uninterrupted.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(one, other)
    for count in ("env_steps", "updates", "episodes"):
        assert getattr(uninterrupted, count) == getattr(second, count)


def test_an_environment_of_the_users(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Mine-v0', entry_point=CartPoleEnv, max_episode_steps=50)\n"
    )
    flags = ["--total-steps", "1500", "--evaluation-episodes", "2", "--json", "--workers", "2"]
    for name, code, message in (
        ("mine:Mine-v0", 0, ""),
        ("mine:Other-v0", 2, "unknown target"),
        ("nothing:Mine-v0", 2, "No module named"),
    ):
        result = run_cli("train", name, *flags, cwd=tmp_path, code=code)
        assert message in result.stderr
        assert code or json.loads(result.stdout)["evaluation"]["mean_length"] <= 50


def test_schedules_and_early_stop(monkeypatch):
    weights, update = [], ppo.update

    def noted(state, clock, batch, report=False):
        weights.append(round(float(state.entropy_weight), 6))
        return update(state, clock, batch, report)

    monkeypatch.setattr(ppo, "update", noted)
    config = replace(SMALL, target_kl=1e-9, entropy=0.1, entropy_end=0.0, epochs=5)
    env = cartpole(config)
    state = ppo.start(config, env)
    for _ in range(3):
        ppo.iterate(state, config, env, StageClock())
    per_epoch = config.num_envs * config.horizon // config.batch_size
    assert state.updates < 3 * 5 * per_epoch  # stopped once the policy had moved
    assert float(state.optimizer.rate) == pytest.approx(config.learning_rate * (1 - 128 / 10_000))
    assert sorted(set(weights), reverse=True) == pytest.approx([0.1 * (1 - steps / 10_000) for steps in (0, 64, 128)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_envs": 0}, "num-envs"),
        ({"gamma": 1.5}, "gamma"),
        ({"memory": "tape"}, "memory must be one of"),
        ({"memory": "lstm", "batch_size": 30}, "whole sequences"),
        ({"accumulate": 5}, "accumulate"),
        ({"async_factor": 2, "normalize_obs": True}, "async-factor does not work"),
        ({"precision": "float8"}, "precision must be one of"),
        ({"critic_hidden": (8,), "shared": True}, "critic-hidden does not work with shared"),
        ({"critic_hidden": (8,), "memory": "lstm"}, "critic-hidden does not work with shared or a memory"),
        ({"critic_hidden": (8, 0)}, "critic-hidden must be layers of at least 1 unit"),
        ({"env_timeout": 0.0}, "env-timeout"),
        ({"entropy_end": -0.1}, "entropy-end"),
        ({"entropy_end": float("nan")}, "entropy-end"),
        ({"hidden": ()}, "hidden"),
        ({"learning_rate": float("nan")}, "learning-rate"),
    ],
)
def test_configs_that_cannot_work(changes, message):
    with pytest.raises(ValueError, match=message):
        ppo.validate(replace(SMALL, **changes))


def test_configs_of_older_records():
    config = configs.config_from(configs.system("CartPole-v1", "ppo"), {"minibatch": 64, "hidden": [8]})
    assert config.batch_size == 64 and config.hidden == (8,) and config.net == "auto"


def test_it_learns():
    config = ppo.Config(num_envs=32, turbo=True, horizon=64, batch_size=512, total_steps=120_000, learning_rate=2e-3)
    env = cartpole(config)
    state = ppo.start(config, env)
    clock = StageClock()
    while state.env_steps < config.total_steps:
        ppo.iterate(state, config, env, clock)
    played = ppo.evaluate(state, hotlap.make_vec("cartpole", 50, seed=1), 7)
    assert played["return"].mean() > 400


@pytest.mark.parametrize(
    ("task", "algorithm", "flags"),
    [
        ("CartPole-v1", "ppo", ["--turbo"]),
        ("CartPole-v1", "dqn", ["--learning-starts", "500"]),
        ("Pendulum-v1", "ppo", ["--normalize-obs", "--normalize-reward"]),
        (max(name for name in gymnasium.registry if name.startswith("Taxi-v")), "ppo", []),
    ],
)
def test_train_any_environment(task, algorithm, flags, tmp_path):
    flags = [*flags, "--total-steps", "3000", "--evaluation-episodes", "2", "--out", "run", "--json"]
    doc = json.loads(run_cli("train", task, "--algo", algorithm, *flags, cwd=tmp_path).stdout)
    assert doc["evaluation"]["episodes"] == 2
    assert doc["counts"]["env_steps"] >= 3000
    flags = ["--resume", "run", "--total-steps", "5000", "--json"]
    again = json.loads(run_cli("train", task, "--algo", algorithm, *flags, cwd=tmp_path).stdout)
    assert again["counts"]["env_steps"] >= 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CartPole-v7"], "unknown target 'CartPole-v7'"),
        (["Pendulum-v1", "--algo", "dqn"], "DQN cannot act in"),
        (["Acrobot-v1", "--turbo"], "no kernel of Acrobot-v1"),
    ],
)
def test_what_cannot_be_trained(arguments, message, tmp_path):
    result = run_cli("train", *arguments, cwd=tmp_path, code=2)
    assert message in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_bare_environments_with_any_actions(tmp_path):
    flags = ["--env-only", "--iterations", "2", "--json"]
    doc = json.loads(run_cli("profile", "Pendulum-v1", *flags, cwd=tmp_path).stdout)
    assert doc["throughput"]["env_steps_per_s"] > 0


def test_action_spaces_of_one_choice_among_several():
    class Odd(Short):
        action_space = gymnasium.spaces.MultiDiscrete([2])

        def step(self, action):
            assert action.shape == (1,)
            return super().step(int(action[0]))

    config = replace(SMALL, num_envs=2, turbo=False, horizon=4, batch_size=4)
    env = make_gym(Odd, 2, seed=0)
    ppo.iterate(ppo.start(config, env), config, env, StageClock())
