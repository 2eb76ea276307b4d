"""hotlap.fast against the plain loops that it replaces."""

import ast
import random
import subprocess
import sys
from collections import deque, namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import hotlap.fast
from hotlap.fast import acting, categorical, moments, optimizers, polyak, prioritised, replay, returns

SHAPES = st.sampled_from([(), (1,), (3,), (2, 4)])
STEPS = st.integers(1, 9)


def rollout(steps, shape, seed, dtype=torch.float32):
    coin = torch.Generator().manual_seed(seed)
    rewards = torch.randn(steps, *shape, generator=coin, dtype=dtype)
    values = torch.randn(steps + 1, *shape, generator=coin, dtype=dtype)
    dones = (torch.rand(steps + 1, *shape, generator=coin) < 0.3).to(dtype)
    return rewards, values, dones


def gae_loop(rewards, values, dones, gamma, lam):
    advantages, last = torch.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * values[t + 1] * alive - values[t]
        advantages[t] = last = delta + gamma * lam * alive * last
    return advantages


@given(STEPS, SHAPES, st.integers(0, 99), st.sampled_from([torch.float32, torch.float64]))
@settings(max_examples=60)
def test_gae_is_the_loop_bit_for_bit(steps, shape, seed, dtype):
    rewards, values, dones = rollout(steps, shape, seed, dtype)
    expected = gae_loop(rewards, values, dones, 0.99, 0.95)
    assert torch.equal(returns.gae(rewards, values, dones[:steps], 0.99, 0.95), expected)
    assert torch.equal(returns.gae(rewards, values[:-1], dones[:steps], 0.99, 0.95, values[-1]), expected)
    began = torch.cat((torch.zeros_like(dones[:1]), dones[:steps]))  # as CleanRL keeps them
    assert torch.equal(returns.gae(rewards, values[:-1], began[:-1], 0.99, 0.95, values[-1], began[-1]), expected)
    arrays = [x.numpy() for x in (rewards, values, dones[:steps])]
    assert np.array_equal(returns.gae(*arrays, 0.99, 0.95), expected.numpy())


def test_gae_keeps_gradients_where_they_are_wanted():
    rewards, values, dones = rollout(5, (3,), 0)
    values.requires_grad_()
    (slow,) = torch.autograd.grad(gae_loop(rewards, values, dones, 0.9, 0.8).sum(), values)
    (fast,) = torch.autograd.grad(returns.gae(rewards, values, dones[:5], 0.9, 0.8).sum(), values)
    assert torch.allclose(slow, fast)
    assert returns.gae(rewards.half(), values.detach().half(), dones[:5], 0.9, 0.8).dtype == torch.half


@given(STEPS, SHAPES, st.integers(0, 99), st.booleans())
@settings(max_examples=60)
def test_discounted_returns_are_the_loop_bit_for_bit(steps, shape, seed, bootstrapped):
    rewards, values, dones = rollout(steps, shape, seed)
    ret = values[-1] if bootstrapped else torch.zeros(shape)
    expected = torch.zeros_like(rewards)
    last = ret
    for t in reversed(range(steps)):
        last = expected[t] = rewards[t] + 0.99 * last * (1 - dones[t])
    start = ret if bootstrapped else 0.0
    assert torch.equal(returns.discounted(rewards, dones[:steps], 0.99, start), expected)
    assert np.array_equal(returns.discounted(rewards.numpy(), dones[:steps].numpy(), 0.99, np.asarray(start)), expected.numpy())


@given(STEPS, SHAPES, st.integers(0, 99), st.integers(1, 4))
@settings(max_examples=40)
def test_n_step_sums_stop_at_the_end_of_an_episode(steps, shape, seed, n):
    rewards, _, dones = rollout(steps + n - 1, shape, seed, torch.float64)
    sums, factors = returns.n_step(rewards, dones[:-1], 0.9, n)
    assert sums.shape == factors.shape == (steps, *shape)
    for t in range(steps):
        expected, factor = torch.zeros(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.float64)
        for k in range(n):
            expected += factor * rewards[t + k]
            factor *= 0.9 * (1 - dones[t + k])
        assert torch.allclose(sums[t], expected) and torch.allclose(factors[t], factor)
    with pytest.raises(ValueError, match="at least"):
        returns.n_step(rewards, dones[:-1], 0.9, steps + n)


Transition = namedtuple("Transition", "state action reward after done")


def transition(k, kind):
    state, after = np.full(3, k, np.float32), np.full(3, k + 0.5, np.float32)
    fields = {
        "arrays": (state, k % 4, k / 7, after, k % 3 == 0),
        "tensors": (torch.from_numpy(state), k % 4, np.float32(k), torch.from_numpy(after), np.bool_(k % 3 == 0)),
        "loose": (state, k % 4, k if k % 5 else 0.5, None if k % 4 == 0 else after, k % 3 == 0),
        "named": (state, np.int64(k), np.float64(k / 7), after, False),
    }[kind]
    return Transition(*fields) if kind == "named" else fields


def same(a, b):
    if isinstance(a, torch.Tensor | np.ndarray):
        return a.dtype == b.dtype and bool((a == b).all())
    return a == b


@pytest.mark.parametrize("first", [4, 1024])
@given(
    kind=st.sampled_from(["arrays", "tensors", "loose", "named"]),
    maxlen=st.sampled_from([None, 1, 7, 20]),
    pushes=st.lists(st.integers(0, 12), max_size=8),
    seed=st.integers(0, 99),
)
@settings(max_examples=50)
def test_a_ring_holds_and_draws_what_a_deque_does(first, kind, maxlen, pushes, seed):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replay, "FIRST", first)
        hold_and_draw(kind, maxlen, pushes, seed)


def hold_and_draw(kind, maxlen, pushes, seed):
    slow, fast, count = deque(maxlen=maxlen), replay.Ring(maxlen), 0
    for pushed in pushes:
        rows = [transition(count + k, kind) for k in range(pushed)]
        slow.extend(rows)
        fast.extend(rows) if seed % 2 else [fast.append(row) for row in rows]
        count += pushed
        assert len(slow) == len(fast)
        assert all(same(a, b) for old, new in zip(slow, fast, strict=True) for a, b in zip(old, new, strict=True))
        if not slow:
            continue
        size = min(5, len(slow))
        random.seed(seed)
        expected = random.sample(slow, size)
        random.seed(seed)
        drawn = fast.sample(size)
        for field, column in zip(zip(*expected, strict=True), drawn.columns(), strict=True):
            assert len(column) == size and all(same(a, b) for a, b in zip(field, column, strict=True))
        assert type(drawn[0]) is type(expected[0]) and same(fast[-1][0], slow[-1][0])
    if kind == "named" and len(slow):
        assert same(fast.rows([0]).column("reward")[0], slow[0].reward)


@pytest.mark.parametrize("first", [4, 1024])
@given(maxlen=st.sampled_from([None, 7, 20]), sizes=st.lists(st.integers(0, 15), max_size=6))
@settings(max_examples=40)
def test_rows_stored_at_once_are_rows_stored_one_by_one(first, maxlen, sizes):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replay, "FIRST", first)
        store_both_ways(maxlen, sizes)


def store_both_ways(maxlen, sizes):
    by_one, at_once, count = replay.Ring(maxlen), replay.Ring(maxlen), 0
    for size in sizes:
        numbers = np.arange(count, count + size)
        columns = (numbers[:, None] * np.ones(3, np.float32), torch.from_numpy(numbers), numbers % 2 == 0)
        by_one.extend(zip(*columns, strict=True))
        at_once.add(*columns)
        count += size
    assert len(by_one) == len(at_once)
    assert all(same(a, b) for x, y in zip(by_one, at_once, strict=True) for a, b in zip(x, y, strict=True))


def test_a_ring_grows_and_refuses_what_is_no_row():
    ring = replay.Ring()
    for k in range(2500):
        ring.append((k, np.full(2, k)))
    assert len(ring) == 2500 and ring[0][0] == 0 and ring[-1][1].tolist() == [2499, 2499]
    with pytest.raises(TypeError, match="not a dict"):
        replay.Ring().append({"state": 1})
    with pytest.raises(ValueError, match="2 fields"):
        ring.append((1,))
    with pytest.raises(IndexError):
        ring[2500]
    columns = ring.sample(3).columns()
    assert replay.stack(columns[1]).shape == (3, 2) and replay.stack([np.zeros(2)] * 3).shape == (3, 2)
    assert replay.cat(torch.zeros(3, 1, 2)).shape == replay.cat([torch.zeros(1, 2)] * 3).shape == (3, 2)


def loop_tree(tree, index, priority):
    index += len(tree) // 2
    tree[index] = priority
    while index > 1:
        index //= 2
        tree[index] = tree[2 * index] + tree[2 * index + 1]


def loop_find(tree, position):
    node = 1
    while node < len(tree) // 2:
        node *= 2
        if position >= tree[node] and tree[node + 1] > 0:
            position -= tree[node]
            node += 1
    return node - len(tree) // 2


@pytest.mark.parametrize("compiled", [True, False])
@given(capacity=st.integers(1, 70), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_the_sum_tree_is_the_loop_over_nodes_bit_for_bit(compiled, capacity, seed):
    forms = (prioritised._set, prioritised._find) if compiled else (prioritised._set_arrays, prioritised._find_arrays)
    coin, tree = np.random.default_rng(seed), prioritised.SumTree(capacity)
    slow = np.zeros(len(tree.nodes))
    for _ in range(4):
        leaves = coin.integers(capacity, size=9)
        priorities = coin.random(9)
        forms[0](tree.nodes, leaves + tree.first, priorities, tree.depth)
        for leaf, priority in zip(leaves, priorities, strict=True):
            loop_tree(slow, leaf, priority)
        assert np.array_equal(tree.nodes, slow)
        positions = coin.random(20) * tree.total
        found = forms[1](tree.nodes, positions.copy(), tree.depth) - tree.first
        assert found.tolist() == [loop_find(slow, position) for position in positions]
        assert (tree.get(found) > 0).all()


def test_prioritised_replay_draws_by_priority():
    memory = prioritised.PrioritisedReplay(64, alpha=1.0, epsilon=0.0, seed=0)
    memory.add(np.arange(100)[40:], np.ones((60, 2), np.float32))
    memory.add(np.arange(100, 110), np.zeros((10, 2), np.float32))  # goes around
    assert len(memory) == 64
    memory.update(np.arange(64), np.where(np.arange(64) % 2 == 0, 3.0, 1.0))
    drawn = np.concatenate([memory.sample(32, beta=1.0).indices for _ in range(200)])
    assert abs((drawn % 2 == 0).mean() - 0.75) < 0.02
    batch = memory.sample(32, beta=1.0)
    even = batch.indices % 2 == 0
    assert np.allclose(batch.weights.numpy(), np.where(even, 1 / 3, 1.0)) and batch.columns[1].shape == (32, 2)
    assert memory.highest == 3.0


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), SHAPES, st.integers(0, 99))
@settings(max_examples=40)
def test_moments_are_welfords(sizes, shape, seed):
    coin, running = np.random.default_rng(seed), moments.RunningMoments(shape)
    rows = coin.normal(3.0, 2.0, (sum(sizes), *shape))
    begin = 0
    for size in sizes:
        running.update(rows[begin : begin + size])
        begin += size
    count, mean, squares = 0, np.zeros(shape), np.zeros(shape)
    for row in rows:
        count += 1
        off = row - mean
        mean = mean + off / count
        squares = squares + off * (row - mean)
    if count:
        assert np.allclose(running.mean, mean, rtol=1e-9, atol=1e-9)
        assert np.allclose(running.variance, squares / count, rtol=1e-9, atol=1e-9)
        assert running.normalize(rows).dtype == np.float32
    with pytest.raises(ValueError, match="rows must be"):
        running.update(np.zeros((2, *shape, 9)))


def net(seed=0, norm=nn.BatchNorm1d):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 16), norm(16), nn.ReLU(), nn.Linear(16, 3))


def test_soft_updates_are_the_loop_bit_for_bit():
    source, slow, fast = net(1), net(2), net(2)
    for _ in range(5):
        for p, q in zip(source.parameters(), slow.parameters(), strict=True):
            q.data.copy_((1 - 0.005) * q.data + 0.005 * p.data)
        polyak.soft_update(fast, source, 0.005)
    assert all(torch.equal(a, b) for a, b in zip(slow.parameters(), fast.parameters(), strict=True))
    source(torch.randn(8, 4))  # moves the buffers
    polyak.copy(fast, source)
    assert all(torch.equal(a, b) for a, b in zip(source.state_dict().values(), fast.state_dict().values(), strict=True))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_fast_optimizers_learn_the_same(kind):
    plain, fast = net(norm=nn.LayerNorm), net(norm=nn.LayerNorm)
    slow = kind(plain.parameters(), lr=1e-2, foreach=False)
    quick = optimizers.fastest(kind, fast.parameters(), lr=1e-2)
    for step in range(100):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        for model, optimizer in ((plain, slow), (fast, quick)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert all(torch.allclose(a, b, atol=2e-5) for a, b in zip(plain.parameters(), fast.parameters(), strict=True))


@pytest.mark.parametrize("most", [0.01, 100.0])
def test_gradients_are_clipped_as_torch_does(most):
    a, b = net(), net()
    for model in (a, b):
        model(torch.ones(8, 4) * torch.arange(8)[:, None]).square().mean().backward()
    norm = nn.utils.clip_grad_norm_(a.parameters(), most)
    assert torch.allclose(optimizers.clip_grad_norm(b.parameters(), most), norm)
    assert all(torch.allclose(p.grad, q.grad) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert optimizers.clip_grad_norm([], 1.0) == 0


@given(st.integers(1, 6), st.integers(2, 9), st.integers(0, 99))
@settings(max_examples=40)
def test_the_projection_is_the_loop_over_rows_and_atoms(batch, atoms, seed):
    coin = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(batch, atoms, generator=coin).softmax(1)
    rewards = torch.randint(-3, 4, (batch,), generator=coin).float() * 0.7
    dones = (torch.rand(batch, generator=coin) < 0.4).float()
    support = torch.linspace(-2.0, 2.0, atoms)
    expected = torch.zeros(batch, atoms)
    for row in range(batch):
        for atom in range(atoms):
            value = float((rewards[row] + 0.9 * (1 - dones[row]) * support[atom]).clamp(-2.0, 2.0))
            place = min(max((value + 2.0) / (4.0 / (atoms - 1)), 0.0), atoms - 1)
            below, above = int(np.floor(place)), int(np.ceil(place))
            mass = probabilities[row, atom]
            if below == above:
                expected[row, below] += mass
            else:
                expected[row, below] += mass * (above - place)
                expected[row, above] += mass * (place - below)
    projected = categorical.project(probabilities, rewards, dones, 0.9, support)
    assert torch.allclose(projected, expected, atol=2e-6)
    assert torch.allclose(projected.sum(1), probabilities.sum(1), atol=1e-5)


def test_one_forward_pass_chooses_what_many_do():
    model = net().eval()
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    choose = acting.BatchedActor(model, seed=0)
    with torch.no_grad():
        one_by_one = [int(model(torch.from_numpy(row)[None]).argmax()) for row in observations]
    assert choose.greedy(observations).tolist() == choose.greedy(list(observations)).tolist() == one_by_one
    assert choose.epsilon_greedy(observations, 0.0).tolist() == one_by_one
    assert set(choose.epsilon_greedy(observations, 1.0)) == {0, 1, 2}
    actions, log_probs = choose.sample(np.repeat(observations[:1], 20_000, 0))
    shares = np.bincount(actions, minlength=3) / 20_000
    with torch.no_grad():
        expected = model(torch.from_numpy(observations[:1]))[0].log_softmax(-1)
    assert np.allclose(shares, expected.exp(), atol=0.02)
    assert np.allclose(log_probs, expected.numpy()[actions], atol=1e-5)


FILES = sorted(Path(hotlap.fast.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_python_3_9_and_needs_numpy_and_torch_alone(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    beyond = {module.split(".")[0] for module in modules} - sys.stdlib_module_names
    assert beyond <= {"numpy", "torch", "numba"} and "from __future__ import annotations" in path.read_text()
    command = [sys.executable, "-c", "import vermin; vermin.main()", "-t=3.9-", "--violations", "--no-tips", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_files_work_where_hotlap_is_not(tmp_path):
    for path in FILES:
        (tmp_path / f"hotlap_{path.stem}.py").write_text(path.read_text())
    script = tmp_path / "fast_anywhere.py"
    script.write_text(Path(__file__).with_name("fast_anywhere.py").read_text())
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
