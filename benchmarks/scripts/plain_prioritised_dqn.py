"""DQN with prioritised replay on CartPole in one plain file: NumPy and torch, a sum tree whose operations are vectorised.

python plain_prioritised_dqn.py STEPS
"""

import sys
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

NUM_ENVS, BATCH, CAPACITY, LEARNING_STARTS, SYNC = 4, 128, 1 << 20, 100, 2_500
GAMMA, ALPHA, BETA, EPSILON_END = 0.99, 0.6, 0.4, 0.05


class SumTree:
    """A binary tree in one array: node i has the children 2i and 2i + 1, the leaves begin at CAPACITY."""

    def __init__(self) -> None:
        self.sums = np.zeros(2 * CAPACITY)

    def set(self, leaves: NDArray[Any], priorities: Any) -> None:
        nodes = leaves + CAPACITY
        self.sums[nodes] = priorities
        while nodes[0] > 1:
            nodes = np.unique(nodes // 2)
            self.sums[nodes] = self.sums[2 * nodes] + self.sums[2 * nodes + 1]

    def draw(self, positions: NDArray[Any]) -> NDArray[Any]:
        nodes = np.ones(len(positions), np.int64)
        while nodes[0] < CAPACITY:
            left = self.sums[2 * nodes]
            goes_right = positions >= left
            positions = np.where(goes_right, positions - left, positions)
            nodes = 2 * nodes + goes_right
        return nodes - CAPACITY


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    total = int(sys.argv[1])
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    net, target = (nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    seen, after = (np.zeros((CAPACITY, 4), np.float32) for _ in range(2))
    actions, rewards = np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.float32)
    alive = np.zeros(CAPACITY, np.float32)
    tree, top = SumTree(), 1.0
    obs = envs.reset(seed=0)[0]
    steps = updates = 0
    begin = time.perf_counter()
    while steps < total:
        epsilon = max(EPSILON_END, 1 - steps / (0.1 * total))
        with torch.no_grad():
            greedy = net(torch.from_numpy(obs)).argmax(1).numpy()
        action = np.where(rng.random(NUM_ENVS) < epsilon, rng.integers(0, 2, NUM_ENVS), greedy)
        next_obs, reward, terminated, truncated, info = envs.step(action)
        true_next = next_obs.copy()
        for i in np.flatnonzero(terminated | truncated):
            true_next[i] = info["final_obs"][i]
        rows = np.arange(steps, steps + NUM_ENVS) % CAPACITY
        seen[rows], after[rows], actions[rows], rewards[rows] = obs, true_next, action, reward
        alive[rows] = 1 - terminated
        tree.set(rows, top)
        obs, steps = next_obs, steps + NUM_ENVS
        if steps < LEARNING_STARTS:
            continue
        beta = BETA + min(1.0, steps / total) * (1 - BETA)
        mass = tree.sums[1]
        rows = tree.draw((np.arange(BATCH) + rng.random(BATCH)) / BATCH * mass)
        weight = (min(steps, CAPACITY) * tree.sums[rows + CAPACITY] / mass) ** -beta
        weight = torch.from_numpy((weight / weight.max()).astype(np.float32))
        with torch.no_grad():
            best = target(torch.from_numpy(after[rows])).amax(1)
            td_target = torch.from_numpy(rewards[rows]) + GAMMA * torch.from_numpy(alive[rows]) * best
        value = net(torch.from_numpy(seen[rows])).gather(1, torch.from_numpy(actions[rows])[:, None])[:, 0]
        loss = (weight * nn.functional.smooth_l1_loss(value, td_target, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        priorities = ((value - td_target).detach().abs().numpy() + 1e-6) ** ALPHA
        tree.set(rows, priorities)
        top = max(top, float(priorities.max()))
        updates += 1
        if updates % SYNC == 0:
            target.load_state_dict(net.state_dict())
    print("updates", updates)
    print("steps_per_s", steps / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main()
