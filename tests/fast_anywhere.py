"""The drop-ins of hotlap.fast, copied beside this script as `hotlap_NAME.py`, in any interpreter that has numpy and torch.

    python fast_anywhere.py      # Python 3.9 to 3.13, torch 1.13 to 2.15, numpy 1 and 2 have been tried

No pytest, no hotlap: that is what a user's project is like. test_fast.py runs it in a folder of its own.
"""

import random
import sys
from collections import deque

import hotlap_acting
import hotlap_categorical
import hotlap_moments
import hotlap_optimizers
import hotlap_polyak
import hotlap_prioritised
import hotlap_replay
import hotlap_returns
import numpy as np
import torch
from torch import nn


def advantages():
    for dtype in (torch.float32, torch.float64):
        rewards, values = torch.randn(9, 3, dtype=dtype), torch.randn(10, 3, dtype=dtype)
        dones = (torch.rand(9, 3) < 0.3).to(dtype)
        expected, last = torch.zeros_like(rewards), 0.0
        for t in reversed(range(9)):
            alive = 1.0 - dones[t]
            delta = rewards[t] + 0.99 * values[t + 1] * alive - values[t]
            expected[t] = last = delta + 0.99 * 0.95 * alive * last
        assert torch.equal(hotlap_returns.gae(rewards, values, dones, 0.99, 0.95), expected)
        column = [x[:, 0].numpy() for x in (rewards, values, dones)]  # one environment: numbers, not rows
        assert np.array_equal(hotlap_returns.gae(*column, 0.99, 0.95), expected[:, 0].numpy())
        assert hotlap_returns.gae(list(rewards), list(values), list(dones), 0.99, 0.95).equal(expected)
        ret = returns = values[-1]
        rows = torch.zeros_like(rewards)
        for t in reversed(range(9)):
            ret = rows[t] = rewards[t] + 0.99 * ret * (1 - dones[t])
        assert torch.equal(hotlap_returns.discounted(rewards, dones, 0.99, returns), rows)
        sums, factors = hotlap_returns.n_step(rewards, dones, 0.9, 3)
        assert sums.shape == factors.shape == (7, 3)


def buffers():
    slow, fast = deque(maxlen=40), hotlap_replay.Ring(40)
    for k in range(100):
        row = (np.full(3, k, np.float32), k % 4, k / 3, torch.full((2,), float(k)), None if k % 7 == 0 else k)
        slow.append(row)
        fast.append(row)
    random.seed(1)
    expected = list(zip(*random.sample(slow, 8)))
    random.seed(1)
    columns = fast.sample(8).columns()
    assert np.array_equal(np.stack(expected[0]), columns[0]) and expected[1] == columns[1] and expected[4] == columns[4]
    assert torch.equal(torch.stack(expected[3]), columns[3]) and torch.tensor(columns[2]).dtype == torch.float32
    memory = hotlap_prioritised.PrioritisedReplay(100, seed=0)
    memory.add(np.random.rand(130, 3).astype(np.float32)[:100], np.arange(100))
    batch = memory.sample(16, beta=0.4)
    memory.update(batch.indices, torch.rand(16))
    tree = memory.tree
    assert (
        abs(tree.nodes[tree.first :].sum() - tree.total) < 1e-9 and (tree.get(tree.find([0.0, tree.total * 0.999])) > 0).all()
    )
    nodes = tree.nodes.copy()
    hotlap_prioritised._set_arrays(nodes, batch.indices + tree.first, np.ones(16), tree.depth)
    tree.set(batch.indices, np.ones(16))
    assert np.array_equal(nodes, tree.nodes)  # with Numba and without


def networks():
    def net():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    source, slow, fast = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), net(), net()
    for p, q in zip(source.parameters(), slow.parameters()):
        q.data.copy_((1 - 0.005) * q.data + 0.005 * p.data)
    hotlap_polyak.soft_update(fast, source, 0.005)
    assert all(torch.equal(a, b) for a, b in zip(slow.parameters(), fast.parameters()))
    hotlap_polyak.copy(fast, source)
    slow, fast = net(), net()
    pairs = (
        (slow, torch.optim.Adam(slow.parameters())),
        (fast, hotlap_optimizers.fastest(torch.optim.Adam, fast.parameters())),
    )
    for step in range(20):
        x = torch.randn(8, 4)
        for model, optimizer in pairs:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            clip = nn.utils.clip_grad_norm_ if model is slow else hotlap_optimizers.clip_grad_norm
            clip(model.parameters(), 0.05)
            optimizer.step()
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(slow.parameters(), fast.parameters()))
    rows = np.random.randn(6, 4).astype(np.float32)
    choose = hotlap_acting.BatchedActor(slow, seed=0)
    assert choose.greedy(rows).tolist() == [int(slow(torch.from_numpy(row)).argmax()) for row in rows]
    assert choose.sample(rows)[0].shape == choose.epsilon_greedy(list(rows), 0.5).shape == (6,)


def numbers():
    probabilities, support = torch.rand(5, 11).softmax(1), torch.linspace(-1, 1, 11)
    projected = hotlap_categorical.project(probabilities, torch.randn(5), torch.zeros(5), 0.9, support)
    assert torch.allclose(projected.sum(1), torch.ones(5), atol=1e-5)
    rows, running = np.random.randn(50, 2), hotlap_moments.RunningMoments((2,))
    for part in np.array_split(rows, 7):
        running.update(part)
    assert np.allclose(running.mean, rows.mean(0)) and np.allclose(running.variance, rows.var(0))


for check in (advantages, buffers, networks, numbers):
    torch.manual_seed(0)
    check()
assert not [name for name in sys.modules if name.split(".")[0] == "hotlap"]
print(sys.version.split()[0], "torch", torch.__version__, "numpy", np.__version__, "numba" in sys.modules)
