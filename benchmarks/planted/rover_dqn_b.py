"""DQN on a rover with range sensors."""

import argparse

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class RoverEnv(gym.Env):
    """A rover that senses round rocks along 24 rays and drives to a flag."""

    def __init__(self, rays=24, rocks=12):
        self.observation_space = gym.spaces.Box(-10, 10, (rays + 3,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.angles = np.linspace(-2, 2, rays, dtype=np.float32)
        self.rocks = np.random.default_rng(3).uniform(-4, 4, (rocks, 2)).astype(np.float32)

    def _obs(self):
        look = self.angles + self.heading
        beams = np.stack([np.cos(look), np.sin(look)])
        gap = self.rocks - self.pos
        along = gap @ beams
        aside = np.square(gap).sum(1)[:, None] - np.square(along)
        near = np.where((along > 0) & (aside < 0.2), along, 5.0).min(0)
        to = self.flag - self.pos
        turn = np.arctan2(to[1], to[0]) - self.heading
        return np.concatenate([near / 5, (np.hypot(to[0], to[1]), np.cos(turn), np.sin(turn))], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos, self.flag = self.np_random.uniform(-4, 4, (2, 2)).astype(np.float32)
        self.heading, self.age = 0.0, 0
        return self._obs(), {}

    def step(self, action):
        self.heading += 0.3 * (int(action) - 1)
        before = np.square(self.flag - self.pos).sum()
        self.pos = self.pos + np.array([np.cos(self.heading), np.sin(self.heading)], np.float32) * 0.2
        gap = np.square(self.flag - self.pos).sum()
        self.age += 1
        return self._obs(), float(before - gap), bool(gap < 0.1), self.age >= 150, {}


def make_net(inputs, outputs, width):
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, size, batch, gamma = 32, 102_400, args.batch_size, 0.98
    envs = gym.vector.SyncVectorEnv([RoverEnv] * n)
    dim, moves = envs.single_observation_space.shape[0], 3
    net, target = make_net(dim, moves, args.hidden), make_net(dim, moves, args.hidden)
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
        if step % 8 == 0:
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
