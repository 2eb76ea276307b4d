"""DQN on swinging up a pendulum."""

import math

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn


class PendulumEnv(gym.Env):
    observation_space = gym.spaces.Box(-10.0, 10.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle, self.speed = self.np_random.uniform(-1.0, 1.0, 2).tolist()
        self.time = 0
        return self.observe(), {}

    def observe(self):
        return np.array((math.cos(self.angle), math.sin(self.angle), self.speed / 4.0, self.time / 200), np.float32)

    def step(self, action):
        self.time += 1
        for _ in range(8):
            self.speed += 0.01 * (9.0 * math.sin(self.angle) + 4.0 * (int(action) - 1) - 0.1 * self.speed)
            self.angle += 0.01 * self.speed
        reward = math.cos(self.angle) - 0.01 * self.speed**2
        return self.observe(), reward, abs(self.speed) > 30.0, self.time >= 200, {"angle": self.angle}


class CheckSpaces(gym.Wrapper):
    def step(self, action):
        assert self.action_space.contains(action)
        obs, reward, term, trunc, info = self.env.step(action)
        assert np.isfinite(obs).all() and np.isfinite(reward)
        assert self.observation_space.contains(obs) or term
        return obs, reward, term, trunc, info


class CopyResult(gym.Wrapper):
    def step(self, action):
        obs, reward, term, trunc, info = self.env.step(action)
        return np.array(obs, copy=True), float(reward), bool(term), bool(trunc), dict(info)


class ClipValues(gym.Wrapper):
    def step(self, action):
        obs, reward, term, trunc, info = self.env.step(action)
        return np.clip(obs, -10.0, 10.0), float(np.clip(reward, -5.0, 5.0)), term, trunc, {}


def make_env():
    env = PendulumEnv()
    env = CopyResult(CheckSpaces(env))
    env = ClipValues(env)
    env = CopyResult(CheckSpaces(env))
    return env


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    n, capacity, batch = 64, 20480, 512
    envs = SyncVectorEnv([make_env] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 3), make_network(size, 3)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=2)[0])
    for t in range(2_000_000):
        with torch.no_grad():
            greedy = online(obs).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - t / 4000)
        actions = np.where(rng.random(n) < epsilon, rng.integers(0, 3, n), greedy)
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
