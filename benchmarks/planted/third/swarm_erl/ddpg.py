import copy

import numpy as np
import torch
from torch import nn


def mlp(n_in, hidden, n_out):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, n_out))


class DDPG:
    def __init__(self, obs_dim, act_dim, cfg):
        self.cfg = cfg
        self.actor = mlp(obs_dim, cfg["hidden"], act_dim)
        self.critic = mlp(obs_dim + act_dim, 2 * cfg["hidden"], 1)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=cfg["actor_lr"], fused=True)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=cfg["critic_lr"], fused=True)
        self.live = [*self.actor.parameters(), *self.critic.parameters()]
        self.slow = [*self.actor_target.parameters(), *self.critic_target.parameters()]

    def weights(self):
        """The actor as numpy arrays, in the layout of evaluate.forward."""
        out = []
        for layer in self.actor:
            if isinstance(layer, nn.Linear):
                out += [layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()]
        return out

    def update(self, obs, action, reward, next_obs):
        with torch.no_grad():
            next_action = torch.tanh(self.actor_target(next_obs))
            target = reward + self.cfg["gamma"] * self.critic_target(torch.cat([next_obs, next_action], 1)).squeeze(1)
        q = self.critic(torch.cat([obs, action], 1)).squeeze(1)
        critic_loss = (q - target).pow(2).mean()
        self.critic_opt.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_opt.step()

        actor_loss = -self.critic(torch.cat([obs, torch.tanh(self.actor(obs))], 1)).mean()
        self.actor_opt.zero_grad(set_to_none=True)
        actor_loss.backward()
        self.actor_opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.slow, self.live, self.cfg["tau"])
        return critic_loss.item()


class Replay:
    def __init__(self, capacity, obs_dim, act_dim, seed):
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.action = np.zeros((capacity, act_dim), np.float32)
        self.reward = np.zeros(capacity, np.float32)
        self.capacity, self.pos, self.size = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def extend(self, obs, action, reward):
        n = len(reward)
        rows = (self.pos + np.arange(n)) % self.capacity
        self.obs[rows], self.next_obs[rows] = obs[:-1], obs[1:]
        self.action[rows], self.reward[rows] = action, reward
        self.pos = (self.pos + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, n):
        rows = self.rng.integers(0, self.size, n)
        return [torch.from_numpy(x[rows]) for x in (self.obs, self.action, self.reward, self.next_obs)]
