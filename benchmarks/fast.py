"""hotlap.fast against the habits that it replaces, each pair interleaved in one process on one core.

    python benchmarks/fast.py [--rounds 15]

A unit of work is one call: a rollout's advantages, a drawn batch, a soft update. Time is that of the processor, so that a busy
neighbour costs little; nothing here waits. Ratios with intervals go to results/fast.json.
"""

import argparse
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from side_by_side import interleave, pin_to_one_core, save, speedup
from torch import Tensor, nn

from hotlap.fast import acting, categorical, moments, optimizers, polyak, prioritised, replay, returns

Pair = tuple[Callable[[], object], Callable[[], object], int]  # the habit, the drop-in, calls per round


def gae() -> Pair:
    """CleanRL's loop over 128 steps of 8 environments."""
    rewards, values, dones = torch.randn(128, 8), torch.randn(128, 8), (torch.rand(128, 8) < 0.02).float()
    last_value, last_done = torch.randn(8), torch.zeros(8)

    def loop() -> Tensor:
        advantages: Any = torch.zeros_like(rewards)
        last: Any = 0
        for t in reversed(range(128)):
            alive = 1.0 - (last_done if t == 127 else dones[t + 1])
            following = last_value if t == 127 else values[t + 1]
            delta = rewards[t] + 0.99 * following * alive - values[t]
            advantages[t] = last = delta + 0.99 * 0.95 * alive * last
        return torch.as_tensor(advantages)

    return loop, lambda: returns.gae(rewards, values, dones, 0.99, 0.95, last_value, last_done), 5


def drawing() -> Pair:
    """A batch of 64 out of 100,000 transitions of 8 numbers."""
    habit: deque[Any] = deque(maxlen=100_000)
    ring = replay.Ring(100_000)
    for k in range(100_000):
        row = (np.full(8, k, np.float32), k % 4, k / 7, np.full(8, k + 1, np.float32), k % 50 == 0)
        habit.append(row)
        ring.append(row)

    def tensors(columns: Any) -> list[Tensor]:
        states, actions, rewards, afters, dones = columns
        numbers = [torch.tensor(rewards, dtype=torch.float32), torch.tensor(dones, dtype=torch.float32)]
        return [torch.tensor(np.array(states)), torch.tensor(actions), torch.tensor(np.array(afters)), *numbers]

    def from_deque() -> list[Tensor]:
        return tensors(zip(*random.sample(habit, 64), strict=True))

    return from_deque, lambda: tensors(ring.sample(64).columns()), 20


def storing() -> Pair:
    """256 transitions of 14 numbers out of tensors, one by one with .item(), or at once."""
    states, afters = torch.randn(256, 14), torch.randn(256, 14)
    actions, rewards, dones = torch.randint(4, (256,)), torch.randn(256), torch.zeros(256, dtype=torch.bool)
    habit: deque[Any] = deque(maxlen=100_000)
    ring = replay.Ring(100_000)

    def one_by_one() -> None:
        for i in range(256):
            habit.append((states[i].numpy(), actions[i].item(), rewards[i].item(), afters[i].numpy(), dones[i].item()))

    return one_by_one, lambda: ring.add(states, actions, rewards, afters, dones), 5


def tree() -> Pair:
    """64 new priorities and 64 draws in a tree of 100,000, node by node in Python."""
    coin, fast = np.random.default_rng(0), prioritised.SumTree(100_000)
    fast.set(np.arange(100_000), coin.random(100_000))
    nodes = fast.nodes.copy()

    def walk() -> None:
        for leaf, priority in zip(coin.integers(100_000, size=64), coin.random(64), strict=True):
            node = leaf + fast.first
            nodes[node] = priority
            while node > 1:
                node //= 2
                nodes[node] = nodes[2 * node] + nodes[2 * node + 1]
        for position in coin.random(64) * nodes[1]:
            node = 1
            while node < fast.first:
                node *= 2
                if position >= nodes[node]:
                    position -= nodes[node]
                    node += 1

    def at_once() -> None:
        fast.set(coin.integers(100_000, size=64), coin.random(64))
        fast.find(coin.random(64) * fast.total)

    return walk, at_once, 5


def tree_without_numba() -> Pair:
    """The same, by numpy alone."""
    walk, _, calls = tree()
    coin, fast = np.random.default_rng(0), prioritised.SumTree(100_000)
    fast.set(np.arange(100_000), coin.random(100_000))

    def at_once() -> None:
        prioritised._set_arrays(fast.nodes, coin.integers(100_000, size=64) + fast.first, coin.random(64), fast.depth)
        prioritised._find_arrays(fast.nodes, coin.random(64) * fast.total, fast.depth)

    return walk, at_once, calls


def mlp(outputs: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


def soft_update() -> Pair:
    """The parameters of a small network, one by one."""
    net, target = mlp(), mlp()

    def loop() -> None:
        with torch.no_grad():
            for p, q in zip(net.parameters(), target.parameters(), strict=True):
                q.data.copy_((1 - 0.005) * q.data + 0.005 * p.data)

    return loop, lambda: polyak.soft_update(target, net, 0.005), 20


def adam() -> Pair:
    """A step of Adam with torch's default on a CPU."""
    nets = mlp(), mlp()
    for net in nets:
        net(torch.randn(64, 8)).square().mean().backward()
    plain = torch.optim.Adam(nets[0].parameters())
    fast = optimizers.fastest(torch.optim.Adam, nets[1].parameters())
    return plain.step, fast.step, 20


def clipping() -> Pair:
    """Gradients of a small network clipped with torch's default on a CPU."""
    net = mlp()
    net(torch.randn(64, 8)).square().mean().backward()
    parameters = list(net.parameters())
    return lambda: nn.utils.clip_grad_norm_(parameters, 1e9), lambda: optimizers.clip_grad_norm(parameters, 1e9), 20


def projection() -> Pair:
    """C51's target for 32 rows of 51 atoms, row by row."""
    probabilities, support = torch.rand(32, 51).softmax(1), torch.linspace(-10, 10, 51)
    rewards, dones = torch.randn(32), torch.zeros(32)

    def loop() -> Tensor:
        target = torch.zeros(32, 51)
        places = ((rewards[:, None] + 0.99 * (1 - dones[:, None]) * support).clamp(-10, 10) + 10) / 0.4
        below, above = places.floor().clamp(0, 50), places.ceil().clamp(0, 50)
        lower, upper = (above + (below == above).float() - places) * probabilities, (places - below) * probabilities
        for row in range(32):
            target[row].index_add_(0, below[row].long(), lower[row])
            target[row].index_add_(0, above[row].long(), upper[row])
        return target

    return loop, lambda: categorical.project(probabilities, rewards, dones, 0.99, support), 10


def running_moments() -> Pair:
    """Mean and variance of 64 observations of 8 numbers, one by one."""
    rows, running = np.random.default_rng(0).normal(size=(64, 8)), moments.RunningMoments((8,))
    state: list[Any] = [0, np.zeros(8), np.zeros(8)]

    def welford() -> None:
        for row in rows:
            state[0] += 1
            off = row - state[1]
            state[1] = state[1] + off / state[0]
            state[2] = state[2] + off * (row - state[1])

    return welford, lambda: running.update(rows), 10


def choosing() -> Pair:
    """Greedy actions of 16 environments, one forward pass each."""
    net, observations = mlp(), np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    choose = acting.BatchedActor(net)

    def one_by_one() -> list[int]:
        with torch.no_grad():
            return [int(net(torch.from_numpy(row)[None]).argmax()) for row in observations]

    return one_by_one, lambda: choose.greedy(observations), 10


PAIRS = {
    "returns.gae": gae,
    "replay.Ring.sample": drawing,
    "replay.Ring.add": storing,
    "prioritised.SumTree, Numba": tree,
    "prioritised.SumTree, numpy": tree_without_numba,
    "polyak.soft_update": soft_update,
    "optimizers.fastest(Adam)": adam,
    "optimizers.clip_grad_norm": clipping,
    "categorical.project": projection,
    "moments.RunningMoments.update": running_moments,
    "acting.BatchedActor.greedy": choosing,
}


def repeated(function: Callable[[], object], calls: int) -> Callable[[], int]:
    def run() -> int:
        for _ in range(calls):
            function()
        return calls

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    pin_to_one_core()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    results: dict[str, Any] = {}
    for name, make in PAIRS.items():
        habit, drop_in, calls = make()
        samples = interleave(
            {"habit": repeated(habit, calls), name: repeated(drop_in, calls)}, args.rounds, clock=time.process_time
        )
        results[name] = speedup(samples, "habit", name) | {"what": make.__doc__}
    save("fast", f"python benchmarks/fast.py --rounds {args.rounds}", results)


if __name__ == "__main__":
    main()
