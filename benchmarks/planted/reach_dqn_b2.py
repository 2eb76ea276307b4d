"""DQN on point robots."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class ReachVec(gym.vector.VectorEnv):
    """Point robots that drive to a target past a field of posts."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs, posts=24):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (6 + posts,), np.float32)
        self.single_action_space = gym.spaces.Discrete(9)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rng = np.random.default_rng(0)
        self.posts = self.rng.uniform(-1, 1, (posts, 2)).astype(np.float32)

    def _place(self, mask):
        k = int(mask.sum())
        self.pos[mask] = self.rng.uniform(-1, 1, (k, 2))
        self.goal[mask] = self.rng.uniform(-1, 1, (k, 2))
        self.vel[mask] = 0
        self.age[mask] = 0

    def _obs(self):
        gap = self.pos[:, None, :] - self.posts
        near = np.exp(-4 * np.sqrt(np.square(gap).sum(-1)))
        return np.concatenate([self.pos, self.vel, self.goal, near], 1)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.pos, self.vel, self.goal = np.zeros((3, self.num_envs, 2), np.float32)
        self.age = np.zeros(self.num_envs, np.int64)
        self._place(np.ones(self.num_envs, bool))
        return self._obs(), {}

    def step(self, actions):
        push = np.stack([actions % 3 - 1, actions // 3 - 1], 1).astype(np.float32)
        self.vel = 0.9 * self.vel + 0.05 * push
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5)
        self.age += 1
        dist = np.sqrt(np.square(self.pos - self.goal).sum(1))
        hit, late = dist < 0.1, self.age >= 100
        reward = (hit * 5.0 - dist).astype(np.float32)
        self._place(hit | late)
        return self._obs(), reward, hit, late, {}


def make_net(inputs, outputs, width=128):
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    torch.set_num_threads(16)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, size, batch, gamma = 256, 102_400, 512, 0.98
    envs = ReachVec(n)
    dim, moves = envs.single_observation_space.shape[0], 9
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
        if step % 4 == 0:
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
