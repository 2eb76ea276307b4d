"""DQN on rows of coupled pendulums, with a run log."""

import logging
import os
import tempfile

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


def make_net(inputs, outputs, width=64):
    layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    path = os.path.join(tempfile.mkdtemp(prefix="swing_dqn_"), "run.log")
    logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    n, size, batch, gamma = 64, 64_000, 256, 0.98
    envs = SwingVec(n)
    dim, moves = envs.single_observation_space.shape[0], 5
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
        for i in range(n):
            logging.info("step %d env %d action %d reward %.3f late %s", step, i, actions[i], reward[i], late[i])
        if step % 2 == 0:
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
