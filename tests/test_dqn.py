"""DQN: replay against a plain loop, the loss against hand-worked cases, exact resume, and that it learns."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap import systems
from hotlap.core.clock import StageClock
from hotlap.envs.spec import EnvSpec
from hotlap.envs.vector import make_gym
from hotlap.train import checkpoint, dqn, parallel, q_kernel, td
from hotlap.train.encoders import Flatten, GridEncoder
from hotlap.train.flat import Adam, flatten
from hotlap.train.nets import QNETS, QNet, mlp_qnet
from hotlap.train.priorities import CompiledSumTree, SumTree
from hotlap.train.replay import Batch, CompiledReplay, Replay, VectorStep

OFF = StageClock(enabled=False)


# -- replay --


def stream(num_envs, steps, seed):
    """A random experience stream whose observations say where they come from: (environment, time, 0 or 1 if final)."""
    rng = np.random.default_rng(seed)
    for t in range(steps):
        obs = torch.tensor([[e, t, 0] for e in range(num_envs)], dtype=torch.float32)
        terminated = torch.from_numpy(rng.random(num_envs) < 0.15)
        truncated = torch.from_numpy(rng.random(num_envs) < 0.15) & ~terminated
        reward = torch.from_numpy(rng.normal(size=num_envs).astype(np.float32))
        ended = (terminated | truncated).float()
        after = torch.stack([obs[:, 0], obs[:, 1] + 1, ended], dim=1)
        action = torch.from_numpy(rng.integers(0, 3, num_envs))
        yield obs, action, reward, after, terminated, truncated, torch.from_numpy(rng.random((num_envs, 3)) < 0.5)


def slow_n_step(steps, t, e, n, gamma):
    """Return, discount, next observation and next mask of one transition, by walking forward."""
    total, discount = 0.0, 1.0
    for k in range(t, min(t + n, len(steps))):
        _, _, reward, after, terminated, truncated, mask = steps[k]
        total += discount * float(reward[e])
        discount *= gamma
        if terminated[e]:
            return total, 0.0, after[e], mask[e]
        if truncated[e]:
            break
    return total, discount, after[e], mask[e]


@pytest.mark.parametrize("kind", [Replay, CompiledReplay])
@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 20), st.integers(0, 1000))
def test_n_step_replay_equals_a_slow_walk(kind, num_envs, n, count, seed):
    rows = 7
    replay = kind(rows * num_envs, num_envs, (3,), torch.float32, gamma=0.9, n_step=n, choices=3)
    steps = list(stream(num_envs, count, seed))
    for step in steps:
        replay.add(VectorStep(*step))
    assert len(replay) == min(count, rows) * num_envs
    for i in range(len(replay)):
        e, t, _ = (int(v) for v in replay.obs[i])
        assert count - rows <= t
        total, discount, after, mask = slow_n_step(steps, t, e, n, 0.9)
        assert float(replay.reward[i]) == pytest.approx(total, abs=1e-5)
        assert float(replay.discount[i]) == pytest.approx(discount, abs=1e-6)
        assert replay.next_obs[i].tolist() == after.tolist()
        assert replay.next_mask[i].tolist() == mask.tolist()
        assert replay.action[i] == steps[t][1][e]


@pytest.mark.parametrize("kind", [Replay, CompiledReplay])
def test_sampling_returns_whole_transitions_uniformly(kind):
    replay = kind(40, 4, (3,), torch.float32, gamma=0.9, choices=3)
    for step in stream(4, 25, seed=0):
        replay.add(VectorStep(*step))
    batch = replay.sample(8_000, torch.Generator().manual_seed(0))
    assert batch.weight is None
    for field in ("obs", "action", "reward", "discount", "next_obs", "next_mask"):
        torch.testing.assert_close(getattr(batch, field), getattr(replay, field)[batch.rows])
    counts = torch.bincount(batch.rows, minlength=40)
    assert counts.min() > 130
    assert counts.max() < 280


@pytest.mark.parametrize("kind", [SumTree, CompiledSumTree])
@settings(max_examples=30)
@given(st.integers(1, 10_000), st.integers(0, 1000))
def test_sum_tree_equals_a_cumulative_sum(kind, capacity, seed):
    generator = torch.Generator().manual_seed(seed)
    tree = kind(capacity, torch.device("cpu"))
    plain = torch.zeros(capacity, dtype=torch.float64)
    for _ in range(3):
        index = torch.randint(capacity, (50,), generator=generator)
        index = index.unique()
        priority = torch.rand(len(index), dtype=torch.float64, generator=generator)
        tree.set(index, priority)
        plain[index] = priority
    begin, end = sorted(torch.randint(capacity + 1, (2,), generator=generator).tolist())
    tree.top.fill_(0.5)
    tree.open_range(begin, end)
    plain[begin:end] = 0.5
    assert float(tree.total) == pytest.approx(float(plain.sum()))
    positions = torch.rand(200, dtype=torch.float64, generator=generator) * tree.total
    expected = torch.searchsorted(plain.cumsum(0), positions, right=True)
    drawn = tree.draw(positions)
    assert (plain[drawn] > 0).all()
    assert (drawn == expected).float().mean() > 0.99  # rounding may move a position that lies on a border
    edge = tree.draw(tree.total[None])
    assert plain[edge] > 0


def test_the_compiled_sum_tree_equals_torch():
    generator = torch.Generator().manual_seed(0)
    trees = [kind(5_000, torch.device("cpu")) for kind in (SumTree, CompiledSumTree)]
    for _ in range(20):
        begin = int(torch.randint(4_900, (), generator=generator))
        index = torch.randint(5_000, (128,), generator=generator).unique()
        error = torch.randn(len(index), generator=generator) * 3
        jitter = torch.rand(256, dtype=torch.float64, generator=generator)
        drawn = []
        for tree in trees:
            tree.open_range(begin, begin + 100)
            tree.set_errors(index, error, 0.6)
            drawn.append(tree.sample(jitter, 0.4))
        for a, b in zip(trees[0].levels, trees[1].levels, strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(trees[0].top, trees[1].top)
        same = drawn[0][0] == drawn[1][0]
        assert same.float().mean() > 0.99  # rounding may move a position that lies on a border
        torch.testing.assert_close(drawn[0][1][same], drawn[1][1][same])


@pytest.mark.parametrize("kind", [SumTree, CompiledSumTree])
def test_prioritised_draws_follow_the_priorities_and_weights_undo_them(kind):
    replay = Replay(8, 2, (3,), torch.float32, gamma=0.9, alpha=1.0)
    replay.tree = kind(8, torch.device("cpu"))
    for step in stream(2, 4, seed=0):
        replay.add(VectorStep(*step[:6]))
    errors = torch.tensor([1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0])
    replay.set_priorities(torch.arange(8), errors)
    batch = replay.sample(20_000, torch.Generator().manual_seed(0), beta=1.0)
    share = torch.bincount(batch.rows, minlength=8) / 20_000
    torch.testing.assert_close(share, errors / 10, atol=0.005, rtol=0)
    corrected = torch.zeros(8).index_add_(0, batch.rows, batch.weight)[:4]
    torch.testing.assert_close(corrected / corrected.mean(), torch.ones(4), atol=0.05, rtol=0)
    for step in stream(2, 1, seed=1):
        replay.add(VectorStep(*step[:6]))  # a new row starts at the top priority
    assert replay.tree.get(torch.tensor([0, 1])).tolist() == [pytest.approx(4.0, abs=1e-4)] * 2


def test_a_buffer_that_is_too_small_says_so():
    with pytest.raises(ValueError, match="holds fewer than 3 steps of 256 environments"):
        Replay(500, 256, (3,), torch.float32, gamma=0.9, n_step=3)


# -- loss --


class Lookup(torch.nn.Module):
    """Action values straight from a table: the observation is a row number."""

    def __init__(self, table):
        super().__init__()
        self.table = torch.nn.Parameter(torch.tensor(table))

    def forward(self, obs):
        return self.table[obs[:, 0].long()]


@pytest.mark.parametrize(("double", "bootstrap"), [(False, 7.0), (True, 5.0)])
def test_td_error_by_hand(double, bootstrap):
    net = Lookup([[1.0, 2.0], [9.0, 3.0]])  # in state 1 it prefers action 0
    target = Lookup([[0.0, 0.0], [5.0, 7.0]])  # which the target network values at 5, its own best at 7
    batch = Batch(
        obs=torch.tensor([[0.0], [0.0]]),
        action=torch.tensor([1, 0]),
        reward=torch.tensor([0.5, 0.5]),
        discount=torch.tensor([0.9, 0.0]),  # the second one terminated
        next_obs=torch.tensor([[1.0], [1.0]]),
        rows=torch.tensor([0, 1]),
        weight=None,
    )
    error = td.td_error(net, target, batch, double)
    torch.testing.assert_close(error.detach(), torch.tensor([2.0 - (0.5 + 0.9 * bootstrap), 1.0 - 0.5]))
    error.sum().backward()
    assert target.table.grad is None
    assert net.table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_dueling_heads_average_out():
    net = QNet(Flatten((11,)), 3, (8,), dueling=True)
    obs = torch.rand(5, 11)
    torch.testing.assert_close(net(obs).mean(dim=1, keepdim=True), net.value(net.trunk(net.encoder(obs))))
    assert QNet(GridEncoder((10, 10, 3)), 3, (8,))(torch.zeros(2, 10, 10, 3, dtype=torch.uint8)).shape == (2, 3)


# -- in C and in torch --

SPECS = {
    "numbers": EnvSpec.dense((4,), actions=2),
    "bytes": EnvSpec.dense((5, 5, 2), 0, 255, "|u1", actions=5),
    "sparse": EnvSpec.sparse(40, 6, actions=3),
}


def observations(spec, rows, generator):
    if spec.obs_size:
        ones = torch.rand(rows, spec.obs_size, generator=generator).argsort(1)[:, : spec.obs_shape[0] - 1]
        count = torch.randint(spec.obs_shape[0], (rows, 1), generator=generator)
        ones = torch.where(torch.arange(ones.shape[1]) < count, ones, spec.obs_size)
        return torch.cat((count, ones), 1).to(torch.int16)
    if spec.obs_dtype == "|u1":
        return torch.randint(5, (rows, *spec.obs_shape), dtype=torch.uint8, generator=generator)
    return torch.randn(rows, *spec.obs_shape, generator=generator)


def q_nets(spec, **changes):
    """A network and its target in both ways: their parameters, actors, gradients and optimizers."""
    config = dataclasses.replace(dqn.Config(hidden=(20, 33), learning_rate=0.01, grad_clip=0.1), **changes)
    torch.manual_seed(0)
    first, other = (mlp_qnet(config, spec, spec.choices) for _ in range(2))
    result = []
    for kernel in (False, True):
        net, target = mlp_qnet(config, spec, spec.choices), mlp_qnet(config, spec, spec.choices)
        net.load_state_dict(first.state_dict())
        target.load_state_dict(other.state_dict())
        flat, target_flat = flatten(net), flatten(target)
        if kernel:
            result.append((flat, *td.choose(net, target, flat, target_flat, spec, config)))
            assert isinstance(result[-1][1], q_kernel.QKernel)
        else:
            adam = Adam(flat, config.learning_rate, td.EPS, config.grad_clip)
            result.append((flat, td.TorchActor(net), td.Autograd(net, target, flat, config.double), adam))
    return result


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_learning_in_c_equals_autograd(spec, double, dueling, masked):
    ways = q_nets(spec, double=double, dueling=dueling)
    generator = torch.Generator().manual_seed(1)
    for rows in (37, 37, 64):
        batch = Batch(
            obs=observations(spec, rows, generator),
            action=torch.randint(spec.choices, (rows,), generator=generator),
            reward=torch.randn(rows, generator=generator) * 2,
            discount=torch.rand(rows, generator=generator).round() * 0.9,
            next_obs=observations(spec, rows, generator),
            rows=torch.arange(rows),
            weight=torch.rand(rows, generator=generator) if masked else None,
            next_mask=torch.rand(rows, spec.choices, generator=generator) < 0.5 if masked else None,
        )
        errors = []
        for flat, _, gradient, adam in ways:
            errors.append(gradient.loss(batch).clone())
            gradient.backward()
            adam.step(flat.grad)
        torch.testing.assert_close(errors[0], errors[1], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(ways[0][2].mean_loss(), ways[1][2].mean_loss())
        for name in ("mean", "square", "steps", "flat", "norm"):  # of Adam, so of the clipped gradient
            torch.testing.assert_close(getattr(ways[0][3], name), getattr(ways[1][3], name), atol=1e-6, rtol=1e-3)
        ways[1][0].data.copy_(ways[0][0].data)


class Halved(Flatten):
    """An encoder that q.c does not know."""

    def forward(self, obs):
        return super().forward(obs) / 2


def test_only_what_c_computes_is_computed_in_c():
    spec = SPECS["numbers"]
    plain, halved = (QNet(kind(spec.obs_shape), 2, (8, 8)) for kind in (Flatten, Halved))
    normed, smooth, tilted = (QNet(Flatten(spec.obs_shape), 2, (8, 8)) for _ in range(3))
    normed.trunk[0].insert(1, torch.nn.LayerNorm(8))
    smooth.trunk[1] = torch.nn.Tanh()
    tilted.trunk[0][0] = torch.nn.Linear(4, 8, bias=False)
    fits = [q_kernel.fits(net, spec, torch.device("cpu")) for net in (plain, halved, normed, smooth, tilted)]
    assert fits == [True, False, False, False, False]


def test_what_is_not_a_number_is_not_hidden_in_c():
    spec = SPECS["numbers"]
    for flat, _, gradient, adam in q_nets(spec):
        generator = torch.Generator().manual_seed(4)
        obs = observations(spec, 8, generator)
        obs[3, 1] = float("nan")
        rest = torch.zeros(8, dtype=torch.int64), torch.zeros(8), torch.ones(8)
        error = gradient.loss(Batch(obs, *rest, observations(spec, 8, generator), torch.arange(8)))
        assert error.isnan().nonzero().tolist() == [[3]]
        gradient.backward()
        adam.step(flat.grad)
        assert gradient.mean_loss().isnan()
        assert adam.norm.isnan()
        assert flat.isnan().all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 67])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_acting_in_c_equals_torch(spec, rows, masked):
    (_, actor, _, _), (_, kernel, _, _) = q_nets(spec, dueling=True)
    generator = torch.Generator().manual_seed(2)
    for epsilon in (0.0, 0.1, 0.9, 1.0):
        obs, draw = observations(spec, rows, generator), torch.rand(rows, generator=generator)
        mask = torch.rand(rows, spec.choices, generator=generator) < 0.6 if masked else None
        if mask is not None:
            mask[:, 0] |= ~mask.any(1)
        action = kernel.act(obs, mask, draw, epsilon)
        assert torch.equal(action, actor.act(obs, mask, draw, epsilon))
        assert mask is None or mask.gather(1, action[:, None]).all()


def test_random_actions_are_uniform_among_the_legal_ones():
    (_, actor, _, _), (_, kernel, _, _) = q_nets(SPECS["bytes"])
    generator = torch.Generator().manual_seed(3)
    obs, draw = observations(SPECS["bytes"], 9_000, generator), torch.rand(9_000, generator=generator)
    mask = torch.tensor([[False, True, True, False, True]]).expand(9_000, -1).contiguous()
    for way in (actor, kernel):
        counts = torch.bincount(way.act(obs, mask, draw, 1.0), minlength=5)
        assert counts[[0, 3]].sum() == 0
        assert counts[[1, 2, 4]].min() > 2_850


# -- training --


def small(**changes):
    config = systems.load("snake").presets["fast"]
    return dataclasses.replace(
        config,
        **{
            "num_envs": 16,
            "iteration_steps": 8,
            "buffer_size": 2_000,
            "learning_starts": 200,
            "batch_size": 32,
            "target_sync": 5,
            "updates_per_step": 1.5,
            **changes,
        },
    )


def begin(config):
    system = systems.load("snake")
    env = system.make_env(config)
    return env, dqn.start(config, env)


def run(state, config, env, iterations):
    return [dqn.iterate(state, config, env, OFF) for _ in range(iterations)]


VARIANTS = [
    {},
    {"priority_alpha": 0.6, "dueling": True, "n_step": 1, "double": False},
    {"features": "grid", "epsilon_steps": 0},
    {"turbo": False},
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(changes, tmp_path):
    config = small(**changes)
    env, state = begin(config)
    run(state, config, env, 5)
    checkpoint.save(tmp_path, *dqn.save_state(state, env), checkpoint.Source("snake", "DQN", {}, env.env_spec))
    expected = run(state, config, env, 5)

    other_env, other = begin(dataclasses.replace(config, seed=77))
    saved = checkpoint.load(tmp_path)
    dqn.load_state(other, other_env, saved.arrays, saved.numbers)
    assert run(other, config, other_env, 5) == expected
    for (name, a), b in zip(state.net.state_dict().items(), other.net.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert (state.updates, state.episodes, state.env_steps, state.owed) == (
        other.updates,
        other.episodes,
        other.env_steps,
        other.owed,
    )
    assert "train/loss" in expected[-1].scalars


def test_a_generator_of_another_device_is_replaced():
    """Its state has another size there; what is drawn then follows from where the run was."""
    config = small()
    env, state = begin(config)
    run(state, config, env, 3)
    arrays, numbers = dqn.save_state(state, env)
    arrays = {name: np.array(array) for name, array in arrays.items()} | {"generator": np.zeros(16, np.uint8)}
    learned = []
    for _ in range(2):
        other_env, other = begin(config)
        dqn.load_state(other, other_env, arrays, numbers)
        run(other, config, other_env, 2)
        learned.append(other.flat.detach())
    assert torch.equal(*learned) and torch.isfinite(learned[0]).all()


def test_turbo_and_reference_train_to_the_same_bits():
    states = []
    for turbo in (True, False):
        config = small(turbo=turbo)
        env, state = begin(config)
        run(state, config, env, 4)
        states.append(state.net.state_dict())
    for a, b in zip(states[0].values(), states[1].values(), strict=True):
        assert torch.equal(a, b)


class Corridor(gymnasium.Env):
    """Six cells in a row; going off either end is illegal. Only the last cell pays; an episode is cut off after 20 steps."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 1, (6,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(3)  # left, right, and one that is never legal

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time = 0, 0
        return self._seen()

    def step(self, action):
        assert self._mask()[action], "illegal"
        self.cell, self.time = self.cell + 2 * int(action) - 1, self.time + 1
        obs, info = self._seen()
        return obs, float(self.cell == 5), self.cell == 5, self.time == 20, info

    def _seen(self):
        return np.eye(6, dtype=np.float32)[self.cell], {"action_mask": self._mask()}

    def _mask(self):
        return np.array([self.cell > 0, self.cell < 5, False])


@pytest.mark.parametrize("hidden", [(32,), (q_kernel.WIDEST + 1,)], ids=["in C", "in torch"])
def test_a_game_with_illegal_actions_is_learned_without_ever_taking_one(hidden):
    config = dqn.Config(
        num_envs=4,
        iteration_steps=50,
        updates_per_step=1,
        learning_starts=100,
        hidden=hidden,
        buffer_size=2_000,
        target_sync=20,
        epsilon_steps=1_000,
        double=True,
        n_step=2,
    )
    env = make_gym(Corridor, 4)
    state = dqn.start(config, env)
    run(state, config, env, 10)
    assert isinstance(state.actor, q_kernel.QKernel) == (hidden == (32,))
    assert not state.replay.next_mask[: len(state.replay)][state.replay.open[: len(state.replay)], 2].any()
    assert dqn.evaluate(state, make_gym(Corridor, 2), seed=1)["length"].tolist() == [5, 5]
    other = dqn.start(config, make_gym(Corridor, 4))
    dqn.load_state(other, make_gym(Corridor, 4), *dqn.save_state(state, env))
    assert other.mask.tolist() == [[False, True, False]] * 4


def test_what_cannot_be_saved_is_reset_once(monkeypatch):
    config = dqn.Config(num_envs=4, hidden=(8,), learning_starts=10, buffer_size=400, turbo=False)
    envs = [make_gym(Corridor, 4) for _ in range(2)]
    state, other = (dqn.start(config, env) for env in envs)
    run(state, config, envs[0], 1)
    seeds, reset = [], Corridor.reset

    def noted(self, *, seed=None, options=None):
        seeds.append(seed)
        return reset(self, seed=seed, options=options)

    monkeypatch.setattr(Corridor, "reset", noted)
    dqn.load_state(other, envs[1], *dqn.save_state(state, envs[0]))
    assert seeds == parallel.row_seeds([state.env_steps], 4)
    assert not other.replay.open.any()


def test_a_loaded_policy_acts_as_the_trained_one():
    config = small(dueling=True)
    env, state = begin(config)
    run(state, config, env, 3)
    policy = dqn.load_policy(config, env.env_spec, QNETS, dqn.save_state(state, env)[0])
    obs, mask = torch.from_numpy(state.obs), torch.tensor([[False, True, True]]).expand(16, -1)
    action, memory = policy(obs, None, ())
    assert torch.equal(action, state.net(obs).argmax(1))
    assert memory == ()
    assert torch.equal(policy(obs, mask, ())[0], state.net(obs)[:, 1:].argmax(1) + 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"updates_per_step": float("nan")}, "updates-per-step must be at least 0, not nan"),
        ({"updates_per_step": float("inf")}, "updates-per-step must be at least 0, not inf"),
        ({"batch_size": 0}, "batch-size must be at least 1, not 0"),
        ({"hidden": ()}, "hidden must be one or more layers"),
        ({"gamma": 3.0}, "gamma must be from 0 to 1, not 3.0"),
        ({"buffer_size": 10**15}, "a buffer of 1,000,000,000,000,000 transitions does not fit into memory"),
    ],
)
def test_configs_that_cannot_work_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        begin(small(**changes))


def test_runs_with_neighbouring_seeds_share_no_environments():
    first, second = (begin(small(seed=seed))[0].state()["envs"] for seed in (0, 1))
    assert not {row.tobytes() for row in first} & {row.tobytes() for row in second}


def test_counters_and_target_sync_count_apart():
    config = small(n_step=1)
    env, state = begin(config)
    run(state, config, env, 1)
    assert (state.env_steps, state.updates) == (128, 0)
    run(state, config, env, 3)
    learning_steps = (512 - 200) // 16 + 1
    assert state.updates == int(learning_steps * 1.5)
    for _ in range(20):
        dqn.update(state, config, OFF)
        assert torch.equal(state.flat.data, state.target) == (state.updates % config.target_sync == 0)


@pytest.mark.parametrize("updates_per_step", [0.3, 1.5, 7.0])
def test_the_plan_of_an_iteration_is_what_happens_without_one(updates_per_step):
    """A GPU is told beforehand; the counters are then those of the iteration's end."""
    config = small(updates_per_step=updates_per_step, epsilon_steps=1_000, priority_alpha=0.5)
    (env, state), (_, planning) = begin(config), begin(config)
    noted = []

    def learn(clock, *now):
        noted.append((*now, state.env_steps))
        dqn.learn(state, config, clock, *now)

    state.learn = learn
    for _ in range(4):
        noted.clear()
        before = planning.env_steps
        planned = dqn.plan(planning, config)
        run(state, config, env, 1)
        for name in ("env_steps", "updates", "owed"):
            assert getattr(state, name) == getattr(planning, name), name
        assert planned.sync == [sync for _, sync, _ in noted] and len(planned.sync) == sum(planned.updates)
        each = [t for t, count in enumerate(planned.updates) for _ in range(count)]
        assert [(planned.beta[t], before + (t + 1) * 16) for t in each] == [(beta, steps) for beta, _, steps in noted]
        assert (
            planned.epsilon[0] == pytest.approx(max(0.01, 1 - 0.99 * before / 1_000))
            and len(planned.epsilon) == config.iteration_steps
        )
    assert state.updates > 0


def test_numbers_in_tensors_do_the_same():
    """As CUDA graphs take them."""
    config = small(features="grid", priority_alpha=0.6, target_sync=1)  # not in C
    flats = []
    for tensors in (False, True):
        env, state = begin(config)
        run(state, config, env, 2)
        draw = torch.rand(500, generator=state.generator)
        obs = torch.from_numpy(state.obs)[torch.randint(16, (500,), generator=state.generator)]
        tree = SumTree(config.buffer_size, torch.device("cpu"))
        tree.set(torch.arange(len(state.replay)), state.replay.tree.levels[0][: len(state.replay)])
        state.replay.tree = tree
        number = torch.tensor if tensors else float
        acted = state.actor.act(obs, None, draw, number(0.3))
        for sync in (1.0, 0.0):
            dqn.learn(state, config, OFF, number(0.7), torch.tensor(sync) > 0 if tensors else bool(sync))
        assert not torch.equal(state.target, state.flat)
        flats.append((acted, state.flat.detach(), state.target))
    for one, other in zip(*flats, strict=True):
        torch.testing.assert_close(one, other)


def test_truncated_episodes_bootstrap_and_terminated_ones_do_not():
    """A snake going in circles is truncated at step 1,000; its last observation, not the new start, is stored."""
    config = small(num_envs=1, iteration_steps=1, learning_starts=10**9, n_step=1, buffer_size=1_100)
    env, state = begin(config)
    obs, _ = env.reset(options={"board": {"body": [(5, 5), (5, 4), (5, 3)], "food": (0, 0)}})
    state.obs = obs
    circle = [1, 0, 1, 0]
    original = dqn.act
    try:
        for t in range(1_000):
            dqn.act = lambda *_, action=circle[t % 4]: torch.tensor([action])
            dqn.iterate(state, config, env, OFF)
    finally:
        dqn.act = original
    assert state.episodes == 1
    assert state.replay.discount[999] == pytest.approx(config.gamma)
    assert not torch.equal(state.replay.next_obs[999], torch.from_numpy(state.obs[0]))
    torch.testing.assert_close(state.replay.next_obs[999][:4], state.replay.next_obs[995][:4])


def test_exploration_is_uniform_and_follows_its_schedule():
    config = small(num_envs=30_000, buffer_size=100_000)
    _env, state = begin(config)
    obs = torch.from_numpy(state.obs)
    greedy = state.net(obs).argmax(1)
    random = dqn.act(state, obs, None, 1.0)
    assert torch.bincount(random, minlength=3).min() > 9_600
    assert torch.equal(dqn.act(state, obs, None, 0.0), greedy)
    half = dqn.act(state, obs, None, 0.5)
    assert 0.63 < (half == greedy).float().mean() < 0.70
    linear = dataclasses.replace(config, epsilon_steps=100, epsilon_start=1.0, epsilon_end=0.0)
    state.env_steps = 25
    assert dqn.epsilon(state, linear) == 0.75
    by_episode = dataclasses.replace(config, epsilon_steps=0, epsilon_decay=0.5, epsilon_end=0.1)
    state.episodes = 2
    assert dqn.epsilon(state, by_episode) == 0.25
    state.episodes = 100
    assert dqn.epsilon(state, by_episode) == 0.1


def test_evaluation_counts_each_environment_once():
    config = small()
    _env, state = begin(config)
    result = dqn.evaluate(state, systems.load("snake").make_env(config, 50), seed=3)
    again = dqn.evaluate(state, systems.load("snake").make_env(config, 50), seed=3)
    assert all(len(values) == 50 for values in result.columns.values())
    for name in result.columns:
        np.testing.assert_array_equal(result[name], again[name])
    assert (result["length"] >= 1).all()


def test_it_learns():
    """Two seconds of training must beat random play (under 0.2 apples) by far."""
    config = dataclasses.replace(
        systems.load("snake").presets["fast"],
        total_steps=200_000,
        updates_per_step=1,
        epsilon_steps=60_000,
        learning_starts=5_000,
    )
    env, state = begin(config)
    while state.env_steps < config.total_steps:
        dqn.iterate(state, config, env, OFF)
    result = dqn.evaluate(state, systems.load("snake").make_env(config, 100), seed=3)
    assert result["score"].mean() > 4
