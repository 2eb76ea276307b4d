"""PPO with Gaussian actions on point robots."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space


class ReachVec(gym.vector.VectorEnv):
    """Point robots that drive to a target past a field of posts."""

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


def mlp(inputs, outputs, width=64):
    layers = [nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    n, horizon, gamma, epochs, rows = 256, 8, 0.97, 2, 1024
    envs = ReachVec(n)
    dim, kind = envs.single_observation_space.shape[0], torch.get_default_dtype()
    actor, critic = mlp(dim, 2), mlp(dim, 1)
    log_std = nn.Parameter(torch.full((2,), -0.5))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=5e-4, fused=True)
    states, taken = torch.zeros(horizon, n, dim), torch.zeros(horizon, n, 2)
    chances, rewards, overs, returns = torch.zeros(4, horizon, n)
    obs, _ = envs.reset(seed=0)
    for update in range(500_000):
        with torch.no_grad():
            for t in range(horizon):
                states[t] = torch.as_tensor(obs, dtype=kind)
                noise = torch.randn(n, 2)
                taken[t] = actor(states[t]) + log_std.exp() * noise
                chances[t] = -(0.5 * noise.square() + log_std).sum(1)
                obs, reward, hit, late, _ = envs.step(taken[t].numpy().astype(np.float32))
                rewards[t], overs[t] = torch.as_tensor(reward, dtype=kind), torch.as_tensor(hit | late, dtype=kind)
            ret = critic(torch.as_tensor(obs, dtype=kind)).squeeze(1)
            for t in reversed(range(horizon)):
                ret = returns[t] = rewards[t] + gamma * ret * (1 - overs[t])
        x, action, old, goals = states.flatten(0, 1), taken.flatten(0, 1), chances.flatten(), returns.flatten()
        for _ in range(epochs):
            for pick in torch.randperm(n * horizon).split(rows):
                value = critic(x[pick]).squeeze(1)
                gain = (goals[pick] - value).detach()
                z = (action[pick] - actor(x[pick])) / log_std.exp()
                ratio = (-(0.5 * z.square() + log_std).sum(1) - old[pick]).exp()
                surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                loss = 0.5 * (goals[pick] - value).square().mean() - surrogate
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        if update % 100 == 0:
            print(update, rewards.mean().item())


if __name__ == "__main__":
    main()
