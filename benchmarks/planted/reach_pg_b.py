"""Policy gradient with a learned baseline on point robots."""

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
        self.single_action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
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
        push = np.clip(actions, -1, 1)
        self.vel = 0.9 * self.vel + 0.05 * push
        self.pos = np.clip(self.pos + self.vel, -1.5, 1.5)
        self.age += 1
        dist = np.sqrt(np.square(self.pos - self.goal).sum(1))
        hit, late = dist < 0.1, self.age >= 100
        reward = (hit * 5.0 - dist).astype(np.float32)
        self._place(hit | late)
        return self._obs(), reward, hit, late, {}


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    n, horizon, gamma = 256, 8, 0.97
    envs = ReachVec(n)
    dim = envs.single_observation_space.shape[0]
    actor, critic = mlp(dim, 2), mlp(dim, 1)
    log_std = nn.Parameter(torch.full((2,), -0.5))
    params = [*actor.parameters(), *critic.parameters(), log_std]
    optimizer = torch.optim.Adam(params, lr=1e-3, fused=True)
    obs, _ = envs.reset(seed=0)
    for update in range(500_000):
        states, taken, rewards, overs = [], [], [], []
        for _ in range(horizon):
            with torch.no_grad():
                mean = actor(torch.from_numpy(obs))
                actions = (mean + log_std.exp() * torch.randn_like(mean)).numpy()
            states.append(obs)
            taken.append(actions)
            obs, reward, hit, late, _ = envs.step(actions)
            rewards.append(reward)
            overs.append((hit | late).astype(np.float32))
        with torch.no_grad():
            ret = critic(torch.from_numpy(obs)).squeeze(1).numpy()
        returns = []
        for reward, over in zip(reversed(rewards), reversed(overs)):
            ret = reward + gamma * ret * (1 - over)
            returns.insert(0, ret)
        x = torch.tensor(states).flatten(0, 1)
        action = torch.tensor(taken).flatten(0, 1)
        goal = torch.tensor(returns).flatten()
        value = critic(x).squeeze(1)
        advantage = (goal - value).detach()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        z = (action - actor(x)) / log_std.exp()
        logp = -(0.5 * z.square() + log_std).sum(1)
        loss = -(logp * advantage).mean() + 0.5 * (goal - value).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        if update % 500 == 0:
            print(update, float(np.mean(rewards)))


if __name__ == "__main__":
    main()
