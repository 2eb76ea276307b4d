"""DQN on rows of coupled pendulums."""

import random
from collections import deque

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class SwingVec(gym.vector.VectorEnv):
    """Rows of coupled pendulums driven at the first joint, swung upright."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs, links=4):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * links,), np.float32)
        self.single_action_space = gym.spaces.Discrete(5)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.links = links

    def _obs(self):
        return np.concatenate([np.cos(self.angle), np.sin(self.angle), self.speed / 8], 1)

    def _draw(self, k):
        return self.rng.uniform(-np.pi, np.pi, (k, self.links)).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.angle, self.speed = self._draw(self.num_envs), np.zeros((self.num_envs, self.links), np.float32)
        self.age = self.rng.integers(0, 200, self.num_envs)
        return self._obs(), {}

    def step(self, actions):
        torque = 10 * (actions.astype(np.float32) - 2)
        for _ in range(4):
            pull = np.roll(self.angle, 1, axis=1) - self.angle
            self.speed += 0.0125 * (10 * np.sin(self.angle) + 2 * np.sin(pull) - 0.1 * self.speed)
            self.speed[:, 0] += 0.0125 * torque
            np.clip(self.speed, -8, 8, out=self.speed)
            self.angle += 0.0125 * self.speed
        reward = np.cos(self.angle).mean(1) - 0.001 * np.square(torque)
        self.age += 1
        late = self.age >= 200
        if late.any():
            self.angle[late], self.speed[late], self.age[late] = self._draw(int(late.sum())), 0, 0
        return self._obs(), reward, np.zeros(self.num_envs, bool), late, {}


def make_net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    rng = np.random.default_rng(0)
    n, gamma, batch = 64, 0.98, 256
    envs = SwingVec(n)
    dim, moves = envs.single_observation_space.shape[0], 5
    net, target = make_net(dim, moves), make_net(dim, moves)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    memory = deque(maxlen=400_000)
    obs, _ = envs.reset(seed=0)
    while len(memory) < 200_000:
        actions = rng.integers(0, moves, n)
        after, reward, _, _, _ = envs.step(actions)
        memory.extend(zip(obs, actions, reward, after))
        obs = after
    for step in range(2_000_000):
        with torch.no_grad():
            actions = net(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(n) < 0.1
        actions[explore] = rng.integers(0, moves, explore.sum())
        after, reward, _, _, _ = envs.step(actions)
        memory.extend(zip(obs, actions, reward, after))
        obs = after
        picked = random.sample(memory, batch)
        state, action, gain, nxt = (torch.from_numpy(np.stack(part)) for part in zip(*picked))
        with torch.no_grad():
            goal = gain + gamma * target(nxt).max(1).values
        value = net(state).gather(1, action[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            target.load_state_dict(net.state_dict())
            print(step, float(reward.mean()), loss.item())


if __name__ == "__main__":
    main()
