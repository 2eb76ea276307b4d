"""DQN on shop restocking."""

import argparse

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class StockVec(gym.vector.VectorEnv):
    """Shops that pick one shelf to refill while customers buy at random."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs, items=16):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * items,), np.float32)
        self.single_action_space = gym.spaces.Discrete(items + 1)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.items = items

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.stock = self.rng.uniform(2, 8, (self.num_envs, self.items)).astype(np.float32)
        self.demand = self.rng.uniform(0.1, 0.9, self.stock.shape).astype(np.float32)
        self.day = self.rng.integers(0, 200, self.num_envs)
        return np.concatenate([self.stock / 10, self.demand], 1), {}

    def step(self, actions):
        rows = np.flatnonzero(actions < self.items)
        self.stock[rows, actions[rows]] += 8
        want = self.rng.poisson(self.demand).astype(np.float32)
        sold = np.minimum(want, self.stock)
        self.stock -= sold
        reward = sold.sum(1) - 0.02 * self.stock.sum(1)
        self.day += 1
        over = self.day >= 200
        self.stock[over], self.day[over] = 5, 0
        obs = np.concatenate([self.stock / 10, self.demand], 1)
        return obs, reward, np.zeros(self.num_envs, bool), over, {}


def make_net(inputs, outputs, width=64):
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates-per-step", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, size, batch, gamma = 256, 102_400, args.batch_size, 0.98
    envs = StockVec(n)
    dim, moves = envs.single_observation_space.shape[0], 17
    net, target = make_net(dim, moves), make_net(dim, moves)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    states, after = np.zeros((2, size, dim), np.float32)
    taken, (rewards, ends) = np.zeros(size, np.int64), np.zeros((2, size), np.float32)
    obs, _ = envs.reset(seed=0)
    for step in range(1_000_000):
        with torch.no_grad():
            actions = net(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(n) < 0.1
        actions[explore] = rng.integers(0, moves, explore.sum())
        new, reward, end, late, _ = envs.step(actions)
        at = slice(step * n % size, step * n % size + n)
        states[at], taken[at], rewards[at], after[at], ends[at] = obs, actions, reward, new, end
        obs = new
        for _ in range(args.updates_per_step):
            pick = rng.integers(0, min((step + 1) * n, size), batch)
            state, action, gain, nxt, stop = (torch.from_numpy(x[pick]) for x in (states, taken, rewards, after, ends))
            with torch.no_grad():
                goal = gain + gamma * (1 - stop) * target(nxt).max(1).values
            value = net(state).gather(1, action[:, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 500 == 0:
            target.load_state_dict(net.state_dict())
            print(step, float(reward.mean()))


if __name__ == "__main__":
    main()
