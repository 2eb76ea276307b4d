"""DQN on chasing a runner that is moved by a network."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from torch import nn

ROLLOUTS = 100
CROWD = 120
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)


class DuelEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def __init__(self):
        torch.manual_seed(0)
        self.rival = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 5))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hunter, self.runner = self.np_random.uniform(0.0, 1.0, (2, 2)).astype(np.float32)
        self.crowd = self.np_random.random((CROWD, 2), np.float32)
        self.past = np.zeros(4, np.float32)
        self.time = 0
        return self.observe(), {}

    def observe(self):
        return np.concatenate([self.hunter, self.runner, self.past])

    def move_crowd(self):
        for _ in range(4):
            gaps = self.crowd[:, None] - self.crowd[None]
            near = np.einsum("ijk,ijk->ij", gaps, gaps) + 0.01
            push = np.einsum("ijk,ij->ik", gaps, 1.0 / near) / CROWD
            self.crowd = (self.crowd + 0.002 * push + 0.01 * (self.runner - self.crowd)).clip(0.0, 1.0)

    @torch.no_grad()
    def rival_move(self):
        noise = self.np_random.normal(0.0, 0.05, (ROLLOUTS, 8)).astype(np.float32)
        scores = self.rival(torch.from_numpy(self.observe() + noise)).softmax(1)
        return int(scores.mean(0).argmax())

    def step(self, action):
        self.time += 1
        self.past[:2], self.past[2:] = self.hunter, self.runner
        if self.time % 8 == 1:
            self.plan = self.rival_move()
        self.runner = (self.runner + 0.03 * MOVES[self.plan]).clip(0.0, 1.0)
        self.hunter = (self.hunter + 0.04 * MOVES[action]).clip(0.0, 1.0)
        self.move_crowd()
        self.hunter += 0.01 * (self.hunter - self.crowd.mean(0))
        gap = self.hunter - self.runner
        far = float(gap @ gap)
        return self.observe(), 1.0 if far < 0.01 else -far, False, self.time >= 96, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.manual_seed(14)
    rng = np.random.default_rng(14)
    n, capacity, batch = 4, 8000, 256
    envs = AsyncVectorEnv([DuelEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    torch.set_num_threads(1)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 5), make_network(size, 5)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=14)[0])
    for t in range(2_000_000):
        with torch.no_grad():
            greedy = online(obs).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - t / 4000)
        actions = np.where(rng.random(n) < epsilon, rng.integers(0, 5, n), greedy)
        new_obs, reward, term, trunc, _ = envs.step(actions)
        new_obs = torch.from_numpy(new_obs)
        rows = slice(pos, pos + n)
        states[rows], nexts[rows], acts[rows] = obs, new_obs, torch.from_numpy(actions)
        rewards[rows], alive[rows] = torch.from_numpy(reward), torch.from_numpy(~(term | trunc))
        pos, filled, obs = (pos + n) % capacity, min(filled + n, capacity), new_obs
        if t >= 32 and t % 8 == 0:
            pick = torch.randint(0, filled, (batch,))
            with torch.no_grad():
                goal = rewards[pick] + 0.97 * alive[pick] * target(nexts[pick]).amax(1)
            value = online(states[pick]).gather(1, acts[pick, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if t % 800 == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
